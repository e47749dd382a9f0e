// The line at the top: which run, what it is doing, and the buttons that ask it for something.

import { attr, bytes, duration, el, known, LIVE, num, plural, put, svg, text } from "./dom.js";

const WORDS = { starting: "Starting", running: "Running", paused: "Paused", stopping: "Stopping", stopped: "Stopped", finished: "Finished", failed: "Failed", crashed: "Crashed", broken: "Unreadable" };

export function header(page) {
  const pick = el("select", { "aria-label": "Run", on: { change: (e) => page.go({ run: e.target.value || null, step: null, open: null, offset: null }), focus: () => page.runs().then(options).catch(() => {}), blur: () => options() } });
  const dot = el("span", { class: "dot", "aria-hidden": "true" });
  const words = el("span");
  const pill = el("span", { class: "pill", id: "pill" }, dot, words);
  const spoken = el("span", { class: "visually-hidden", role: "status" }); // the state alone is read out: the words change with every answer
  const facts = el("span", { class: "facts small muted" });
  const controls = el("span", { class: "row" });
  const strip = el("div", { class: "strip stack" });
  let drawn = "";
  let told = "";
  let shown = null; // the run that is drawn here, which the buttons act on
  let asked = {}; // commands sent from this page that no answer has shown yet

  function top(tabs) {
    const menu = el("button", { class: "btn quiet menu", "aria-label": "Controls", "aria-expanded": "false", text: "⋯", on: { click: () => {
      const open = bar.classList.toggle("isopen");
      attr(menu, "aria-expanded", String(open));
    } } });
    const bar = el("header", { class: "top" },
      el("div", { class: "line" },
        el("span", { class: "brand" }, mark(), el("span", { text: "minigrpo" })),
        el("span", { class: "runpick" }, pick), pill, spoken, menu, facts, el("span", { class: "row folds" }, controls,
        el("span", { class: "row tight" },
          el("button", { class: "btn quiet", title: "light or dark", "aria-label": "Light or dark", on: { click: () => page.theme() } }, "◐"),
          el("button", { class: "btn quiet", title: "keys", "aria-label": "Keys", on: { click: () => page.help() } }, "?")))),
      tabs);
    return bar;
  }

  function options() {
    const rows = page.list.map((r) => [r.id, `${r.name}${LIVE.includes(r.state) ? " · live" : ""}`]);
    const latest = page.list.find((r) => r.id === page.latest);
    const wanted = [["", latest ? `Latest: ${latest.name}` : "No runs yet"], ...rows];
    const key = JSON.stringify(wanted);
    const value = document.activeElement === pick ? pick.value : (page.params().run ?? ""); // not while a person chooses
    if (key !== drawn) put(pick, wanted.map(([value, label]) => el("option", { value, text: label })));
    drawn = key;
    if (pick.value !== value) pick.value = value;
  }

  function draw(answer) {
    options();
    shown = answer?.run ?? null;
    if (!answer) {
      state("none", "No run");
      text(facts, "");
      controlsFor(null);
      put(strip);
      told = "";
      return;
    }
    const s = answer.status;
    const word = WORDS[s.state] ?? s.state;
    state(s.state, word, `${s.replay ? "Recording: " : ""}${pendingWords(s) ?? s.say ?? word}`);
    text(facts, factsOf(s).join(" · "));
    controlsFor(s);
    troubles(answer);
  }

  function state(name, word, more = word) {
    attr(pill, "data-state", name);
    text(words, more);
    text(spoken, word);
  }

  function pendingWords(s) {
    for (const { id, ok, note, command } of s.answered ?? []) {
      if (asked[id] && !ok) page.say(`${command} was refused: ${note}`);
      delete asked[id];
    }
    const open = LIVE.includes(s.state) ? s.pending?.at(-1) : null; // nobody is left to answer
    if (!open) return null;
    if (open.late) return `The trainer has not answered “${open.command}” for ${duration(open.age_s)}`;
    const soon = known(s.seconds_per_step) ? ` (a step takes ${duration(s.seconds_per_step)})` : "";
    return { pause: "Pause asked, takes effect after this step", resume: "Resume asked", stop: "Stop asked: it will save first", checkpoint: "Checkpoint asked" }[open.command] + soon;
  }

  function factsOf(s) {
    const live = LIVE.includes(s.state);
    return [
      known(s.step) && known(s.max_steps) ? `step ${s.step} of ${s.max_steps}` : null,
      known(s.seconds_per_step) ? `${num(s.seconds_per_step, s.seconds_per_step < 10 ? 1 : 0)} s a step` : null,
      live && known(s.eta_s) ? `${duration(s.eta_s)} left` : null,
      live && known(s.memory) && s.memory > 0 ? bytes(s.memory) : null,
      live && known(s.age_s) ? `data ${duration(Math.max(0, s.age_s))} old` : null,
    ].filter(Boolean);
  }

  function controlsFor(s) {
    const live = s && LIVE.includes(s.state);
    const late = s?.pending?.some((p) => p.late);
    const key = s ? [live, s.state, late, s.replay, page.can.control, page.can.train].join() : "";
    if (controls.dataset.key === key) return;
    controls.dataset.key = key;
    const button = (label, title, act, kind = "") => el("button", { class: `btn ${kind}`, title, text: label, on: { click: act } });
    if (!s || !page.can.control) return put(controls);
    const at = [...controls.children].indexOf(document.activeElement);
    if (live) {
      put(controls,
        s.state === "paused" ? button("Resume", "goes on with the next step", () => send("resume"))
          : button("Pause", "stands still after this step; keeps its memory", () => send("pause")),
        s.replay ? null : button("Stop & save", "finishes the step, saves a checkpoint and ends; it can be resumed", () => send("stop")),
        s.replay ? null : button("Checkpoint", "saves a checkpoint after this step", () => send("checkpoint"), "quiet"),
        late ? button("Force stop", "ends the process; what was saved stays", force, "bad") : null);
    } else {
      put(controls, s.replay ? button("Play again", "from the first step", () => page.replay())
        : page.can.train && ["stopped", "crashed", "failed"].includes(s.state) ? button("Resume", "goes on from the last checkpoint, in its own process", resume, "primary") : null);
    }
    controls.children[at]?.focus(); // where the focus was
  }

  async function attempt(act) {
    await page.attempt(act);
    page.refresh();
  }

  const send = (command) => attempt(async () => {
    const { id } = await page.ask("control", { run: shown, command });
    asked[id] = command;
    text(words, pendingWords({ ...page.status(), pending: [{ command, age_s: 0, late: false }], answered: [] }));
  });
  const resume = () => attempt(async () => {
    const { run } = await page.ask("go_on", { run: shown });
    page.say(`${run} goes on from its last checkpoint`);
  });
  const force = () => attempt(async () => {
    const run = shown;
    if (!(await page.confirm("End the trainer's process now? What it did since its last checkpoint is lost; the run can be resumed from there.", "Force stop"))) return;
    page.say((await page.ask("force", { run, confirm: true })).say);
  });

  function troubles(answer) {
    const s = answer.status;
    const ended = ["failed", "crashed", "broken"].includes(s.state);
    const lines = [ended ? [s.say, s.reason, s.last_error].filter(Boolean) : s.last_error ? [s.last_error] : []].flat();
    const key = JSON.stringify([lines, ended && s.log]);
    if (key === told) return;
    told = key;
    const unique = [...new Set(lines)];
    put(strip, unique.length ? el("div", { class: `note ${ended ? "bad" : "warn"}`, id: "trouble" },
      unique.map((l) => el("p", { text: l })),
      ended && s.log?.length ? el("details", null, el("summary", { text: `the last ${plural(s.log.length, "line")} of its log` }), el("pre", { class: "small", text: s.log.join("\n") })) : null) : null);
  }

  function trouble(error, wait) {
    if (error.fix !== undefined) { // refused: the server is there, the run is not
      state("failed", "Cannot be read");
      if (page.run() !== shown) controlsFor(null); // they would act on the run before
      told = "";
      return put(strip, el("div", { class: "note bad", id: "trouble" }, el("p", { text: error.message }), el("p", { text: error.fix }),
        el("button", { class: "btn", text: "Choose the latest run", on: { click: () => page.go({ run: null, step: null }) } })));
    }
    state("lost", "Panel process not reachable");
    told = "";
    put(strip, el("div", { class: "note warn", id: "trouble" }, el("p", { text: `Panel process not reachable; minigrpo panel starts it again. Training is not affected. Trying again in ${duration(wait / 1000)}.` })));
  }

  return { top, strip, draw, trouble };
}

/** Three bars from a middle line: what an advantage looks like. */
function mark() {
  return svg("svg", { viewBox: "0 0 26 18", "aria-hidden": "true" },
    svg("rect", { x: 12, y: 0, width: 2, height: 18, fill: "currentColor", opacity: ".35" }),
    svg("rect", { x: 14, y: 1, width: 10, height: 4, rx: 1, fill: "var(--up)" }),
    svg("rect", { x: 3, y: 7, width: 9, height: 4, rx: 1, fill: "var(--down)" }),
    svg("rect", { x: 14, y: 13, width: 6, height: 4, rx: 1, fill: "var(--up)" }));
}
