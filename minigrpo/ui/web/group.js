// One group: the question, its answers side by side, and what the comparison between them taught.

import { attr, el, known, marked, num, plural, put, signed, text, visible } from "./dom.js";
import { card, inside, outcome } from "./card.js";

const SIGNALS = { mixed: "mixed", all_right: "all full marks", all_wrong: "all without marks", equal: "all equal" };
const ALIKE = { cut: "all cut off", unreadable: "no answer found", failed: "reward failed" };

/** The elements of a group and what can be done to them. */
export function group(app, board, summary) {
  const run = app.run(); // its own: the page may be at another one when a button is pressed
  const needle = board.query().search;
  let cards = []; // made when they are first shown: most groups without signal never are
  const dull = summary.signal !== "mixed";
  let spread = !dull && !matchMedia("(max-width: 640px)").matches; // what taught nothing starts folded, on a phone everything
  let starred = summary.star;
  let openI = null;
  let whole = null;

  const grid = el("div", { class: "answers", role: "group", "aria-label": "Answers" });
  const flipper = el("button", { class: "flip", "aria-expanded": String(spread), on: { click: flip } },
    el("span", { class: "marks", role: "img", "aria-label": marksSay(summary) }, summary.answers.map((a) => mark(a, summary.scale))),
    el("span", { class: "numbers" }, el("b", { text: `${summary.right} of ${summary.n} with full marks` }), el("span", { class: "muted", text: ` · mean ${num(summary.mean)}, spread ${num(summary.std)} · ${tokensSay(summary)}` })));
  const star = el("button", { class: "btn quiet star", "aria-pressed": String(starred), "aria-label": "Star this group", title: "star this group", text: starred ? "★" : "☆", on: { click: toggleStar } });
  const noted = el("span", { class: "small muted", title: "it has a note: see “Prompt and explanation”", hidden: !summary.note, text: "✎ note" });
  const over = el("div", { class: "overtime stack", hidden: true });
  const inTime = el("button", { class: "btn quiet", text: "Same prompt over time", "aria-expanded": "false", on: { click: sameOverTime } });
  const detail = el("div", { class: "detail stack", hidden: true });
  const about = el("button", { class: "btn quiet", text: "Prompt and explanation", "aria-expanded": "false", on: { click: explain } });

  const node = el("li", { class: "group", dataset: { key: summary.key, signal: summary.signal ?? "unknown" } },
    el("div", { class: "head" }, flipper, el("span", { class: "grow" }), noted, el("span", { class: `kind ${summary.signal}`, text: kindOf(summary) }),
      board.query().scope === "run" ? el("button", { class: "btn quiet", text: `step ${summary.step}`, on: { click: () => app.go({ step: summary.step, scope: null }) } }) : el("span", { class: "small muted", text: summary.kept === false ? "not used" : "" }),
      app.can.control ? star : null),
    el("div", { class: "asked" },
      el("p", { class: "question" }, el("span", { class: "tag", text: "Question" }), el("bdi", null, marked(summary.question, needle))),
      el("p", { class: "gold" }, el("span", { class: "tag", text: "Right answer" }), summary.gold === null || summary.gold === undefined ? el("span", { class: "muted", text: "not recorded" }) : el("bdi", null, marked(summary.gold, needle)))),
    el("p", { class: "say", text: summary.say ?? "" }),
    grid, el("div", { class: "row more" }, about, inTime), detail, over);
  unfold();

  function flip() {
    spread = !spread;
    attr(flipper, "aria-expanded", String(spread));
    unfold();
  }

  function unfold() {
    grid.hidden = !spread;
    if (!spread || cards.length) return;
    cards = summary.answers.map((a) => card(summary, a, needle, { toggle: (key, i) => board.toggle(key, i) }));
    put(grid, cards);
  }

  async function load() {
    whole ??= { ...(await app.ask("group", { run, key: summary.key })), run };
    return whole;
  }

  /** Opens member `i` (null: none). */
  async function open(i) {
    if (i === openI) return;
    if (i !== null && !spread) flip();
    const before = cards.find((c) => Number(c.dataset.i) === openI);
    const now = cards.find((c) => Number(c.dataset.i) === i);
    openI = i;
    if (before) {
      before.classList.remove("isopen");
      before.querySelector(".inside").hidden = true;
      attr(before.querySelector(".open"), "aria-expanded", "false");
      text(before.querySelector(".open"), "Open");
    }
    if (!now) return;
    now.classList.add("isopen");
    attr(now.querySelector(".open"), "aria-expanded", "true");
    text(now.querySelector(".open"), "Close");
    const box = now.querySelector(".inside");
    box.hidden = false;
    if (filled(box)) return;
    try {
      put(box, el("p", { class: "muted", text: "reading …" }));
      inside(box, app, summary, await load(), i, needle);
    } catch (error) {
      put(box, el("p", { class: "note bad", text: `${error.message} ${error.fix ?? ""}` }));
    }
  }

  async function explain() {
    const show = detail.hidden;
    attr(about, "aria-expanded", String(show));
    detail.hidden = !show;
    if (!show || filled(detail)) return;
    try {
      const g = await load();
      put(detail, el("div", { class: "two" },
        el("section", { class: "stack", "aria-label": "Prompt" }, el("h4", { text: "The prompt, as the model got it" }),
          g.prompt.map((m) => el("div", { class: "message" }, el("span", { class: "tag", text: m.role }), el("pre", null, el("bdi", { text: visible(m.content) })))),
          g.full_gold !== null && g.full_gold !== undefined ? el("p", null, el("span", { class: "tag", text: "Right answer" }), el("bdi", { text: visible(g.full_gold) })) : null),
        el("section", { class: "stack", "aria-label": "Explanation" }, el("h4", { text: "What this group taught" }), g.explain.map((s) => el("p", { text: s })),
          g.kind_of_advantage ? el("p", { class: "small muted", text: `Advantage: ${g.kind_of_advantage}.` }) : null, app.can.control ? noteBox(g) : null)));
    } catch (error) {
      put(detail, el("p", { class: "note bad", text: error.message }));
    }
  }

  function noteBox(g) {
    const area = el("textarea", { text: g.note, maxlength: 2000, "aria-label": "A note on this group", placeholder: "a note on this group, kept in the run's notes.jsonl" });
    return el("div", { class: "stack" }, area, el("button", { class: "btn", text: "Keep the note", on: { click: () => app.attempt(async () => {
      const kept = area.value.trim();
      await app.ask("note", { run, key: summary.key, star: null, text: kept });
      noted.hidden = !kept;
      app.say(kept ? "kept" : "the note is taken away");
    }) } }));
  }

  async function sameOverTime() {
    const show = over.hidden;
    attr(inTime, "aria-expanded", String(show));
    over.hidden = !show;
    if (!show) return;
    try {
      const { groups, total } = await app.ask("same", { run, example_id: summary.example_id });
      put(over, el("p", { class: "small muted", text: `${plural(total, "group")} of this prompt${total > groups.length ? `, ${groups.length} shown` : ""}` }),
        el("ol", { class: "rows" }, groups.map((g) => el("li", null, el("button", { class: "flip", on: { click: () => app.go({ step: g.step, scope: null, show: null, search: null }) }, "aria-current": g.key === summary.key ? "true" : null },
          el("span", { class: "when", text: `step ${g.step}` }), el("span", { class: "marks", role: "img", "aria-label": marksSay(g) }, g.answers.map((a) => mark(a, g.scale))), el("span", { class: "small", text: `${g.right} of ${g.n} with full marks, mean ${num(g.mean)}` }))))));
    } catch (error) {
      put(over, el("p", { class: "note bad", text: error.message }));
    }
  }

  function toggleStar() {
    return app.attempt(async () => {
      await app.ask("note", { run, key: summary.key, star: !starred, text: null });
      refresh(!starred);
    });
  }

  function refresh(star_) {
    if (star_ === undefined || star_ === starred) return;
    starred = star_;
    attr(star, "aria-pressed", String(starred));
    text(star, starred ? "★" : "☆");
  }

  return { node, summary, flip, open, star: toggleStar, refresh };
}

/** Whether a box holds what was asked for: one that tells of an error is asked for again. */
function filled(box) {
  return box.childElementCount > 0 && !box.querySelector(":scope > .note.bad");
}

/** Why all rewards are equal, at a glance. */
function kindOf(g) {
  const [one] = new Set(g.answers.map((a) => a.outcome));
  const alike = g.answers.every((a) => a.outcome === one);
  return (g.signal === "all_wrong" && alike && ALIKE[one]) || SIGNALS[g.signal] || "–";
}

function tokensSay({ tokens }) {
  if (!tokens || !known(tokens[0])) return "length not recorded";
  return tokens[0] === tokens[1] ? `${tokens[0]} tokens` : `${tokens[0]} to ${tokens[1]} tokens`;
}

function marksSay(g) {
  return g.answers.map((a) => `${outcome(a)[1]} ${signed(a.adv)}`).join(", ");
}

/** One answer of a strip: its shape is the outcome, its colour the advantage. */
function mark(a, scale) {
  const level = known(a.adv) ? Math.ceil((3 * Math.abs(a.adv)) / (scale || 1)) : 0;
  return el("span", { class: "mark", dataset: { way: a.adv < 0 ? "down" : "up", level }, text: outcome(a)[0] });
}
