// Prepare a training and start it: settings on the left, on the right what comes of them.

import { Checks } from "./checks.js";
import { attr, debounce, el, plural, put, recall, remember, text, visible } from "./dom.js";
import { Fields } from "./fields.js";

const KEPT = "train"; // in the browser: settings that were not started yet

export function mount(root, app) {
  return new Train(root, app);
}

class Train {
  constructor(root, app) {
    const kept = restore();
    Object.assign(this, { root, app, values: kept.values, hold: kept.hold, pending: kept.pending, asked: 0 });
    this.keys = { "/": () => { this.fields.all.open = true; this.fields.search.focus(); } };
    this.soon = debounce(() => this.plan(), 400);
    this.fields = new Fields(this.values, () => this.edited());
    this.checks = new Checks(app, () => ({ reward: this.values.reward, hold: this.hold }));
    this.frame();
  }

  frame() {
    this.presets = el("div", { class: "presets" });
    this.origin = el("p", { class: "note small", hidden: true });
    this.state = el("p", { role: "status", id: "train-state", text: "Looking at the settings…" });
    this.wrong = el("ul", { class: "stack small" });
    this.going = el("div", { role: "status" });
    this.begin = el("button", { type: "submit", class: "btn primary", id: "start", text: "Start training" });
    const defaults = el("button", { type: "button", class: "btn", text: "All defaults", title: "forgets these settings", on: { click: () => this.take({}) } });
    const first = el("section", { class: "card stack begin", "aria-label": "Start" }, el("h3", { text: "Before it starts" }),
      this.state, this.wrong, this.checks.notes, el("div", { class: "row" }, this.begin, defaults), this.going);
    const form = el("form", { class: "trainer", novalidate: true, on: { submit: (e) => { e.preventDefault(); this.start(); } } },
      el("div", { class: "stack left" }, el("fieldset", { class: "stack" }, el("legend", null, el("h3", { text: "Begin with" })), this.presets, this.origin), this.fields.main, this.fields.all),
      el("div", { class: "stack right" }, first, this.checks.nodes));
    put(this.root, el("h2", { class: "visually-hidden", text: "Train" }), form);
  }

  // -- what main.js asks ----------------------------------------------------------------------------------------------------

  async show() {
    if (!this.fields.known.length) await this.form();
    const from = this.app.params().from;
    if (from) await this.duplicate(from);
    else this.plan();
    if (this.pending) this.follow();
  }

  hide() {}

  tick() {}

  // -- settings ---------------------------------------------------------------------------------------------------------------

  /** The fields; their suggestions come when the server has found them. */
  async form() {
    const answer = await this.attempt("form", {});
    if (!answer) return this.later(3000);
    if (this.fields.known.length) this.fields.offer(answer.fields);
    else {
      for (const key of Object.keys(this.values)) if (!answer.fields.some((f) => f.key === key)) delete this.values[key];
      this.fields.draw(answer.fields);
      this.cards(answer.presets);
      if (!restored()) this.take(answer.presets[0].values);
    }
    if (!answer.ready) this.later(2000);
    else this.soon(); // the device is known now, and what it means for these settings
  }

  /** Asks again, once this tab is shown. */
  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.root.hidden ? this.later(ms) : this.form()), ms);
  }

  cards(presets) {
    put(this.presets, presets.map((p) => el("button", { type: "button", class: "card preset", "aria-pressed": "false", dataset: { values: JSON.stringify(p.values) }, on: { click: () => this.take(p.values) } },
      el("strong", { text: p.name }), el("span", { class: "small muted", text: p.say }))));
    this.pressed();
  }

  pressed() {
    const now = canon(this.values);
    for (const card of this.presets.children) attr(card, "aria-pressed", String(canon(JSON.parse(card.dataset.values)) === now));
  }

  /** Other settings in place of these; `hold` are files of code that came with them. */
  take(values, hold = [], origin = "") {
    for (const key of Object.keys(this.values)) delete this.values[key];
    Object.assign(this.values, structuredClone(values));
    this.hold = hold;
    text(this.origin, origin).hidden = !origin;
    this.fields.refill();
    this.edited();
  }

  async duplicate(run) {
    const answer = await this.attempt("config_of", { run });
    if (answer) this.take(answer.values, answer.files, `The settings of ${run}.`);
    await this.app.go({ from: null }, { replace: true });
  }

  edited() {
    this.keep();
    this.pressed();
    this.fields.marks();
    this.soon();
  }

  keep() {
    remember(KEPT, JSON.stringify({ values: this.values, hold: this.hold, pending: this.pending }));
  }

  // -- checks ---------------------------------------------------------------------------------------------------------------

  async plan(again = true) {
    const mine = ++this.asked;
    text(this.state, "Looking at the settings…");
    let answer;
    try {
      answer = await this.app.ask("plan", { values: this.values, hold: this.hold });
    } catch (error) {
      if (mine !== this.asked) return;
      text(this.state, error.fix === undefined ? "The panel cannot be reached. The settings are kept in this browser." : [error.message, error.fix].filter(Boolean).join(": "));
      if (error.fix === undefined && !this.root.hidden) setTimeout(() => mine === this.asked && this.plan(), 3000);
      return;
    }
    if (mine !== this.asked) return;
    if (answer.preview.again && again) return this.plan(false);
    this.wrongs = answer.errors;
    this.fields.errors(answer.errors);
    this.fields.marks(answer.effective);
    this.checks.draw(answer, () => { this.hold = []; this.keep(); this.plan(); });
    text(this.state, answer.errors.length ? `${plural(answer.errors.length, "thing")} to mend first:` : "Ready.");
    attr(this.state, "class", answer.errors.length ? "bad" : "good");
    put(this.wrong, answer.errors.map((e) => el("li", null, el("button", { type: "button", class: "btn quiet", text: e.key, "aria-label": `Go to ${e.key}`, on: { click: () => this.fields.focus(e.key) } }), ` ${visible(e.message)}`)));
    this.root.dataset.ready = "1";
  }

  // -- starting ---------------------------------------------------------------------------------------------------------------

  async start() {
    if (this.starting || this.pending) return;
    this.starting = true;
    this.begin.disabled = true;
    try {
      if (await this.agreed()) {
        const { run } = await this.app.ask("start", { values: this.values, hold: this.hold });
        this.pending = run;
        this.keep();
        this.follow();
      }
    } catch (error) {
      this.refused(error.message, error.fix);
    } finally {
      this.starting = false;
      this.begin.disabled = Boolean(this.pending);
    }
  }

  async agreed() {
    const [first] = this.wrongs ?? [];
    if (first && !(await this.app.confirm(`${first.key}: ${first.message}. It will probably not start. Try it all the same?`, "Start"))) {
      this.fields.focus(first.key);
      return false;
    }
    if (this.hold.length && !(await this.app.confirm(`This runs Python code from ${this.hold.map(visible).join(", ")}, which came with another run's settings. Do you know it?`, "Start"))) return false;
    this.hold = [];
    return true;
  }

  /** Watches a training until it has begun or failed. One watcher at a time. */
  async follow() {
    if (this.following) return;
    this.following = true;
    this.begin.disabled = true;
    try {
      await this.watch(this.pending);
    } finally {
      this.following = false;
    }
  }

  async watch(run) {
    for (let state = "starting"; state === "starting" || state === "loading";) {
      let answer;
      try {
        answer = await this.app.ask("starting", { run });
      } catch (error) {
        answer = error.fix === undefined ? { state, say: "The panel cannot be reached; the training is not affected." } : { state: "failed", say: error.message, fix: error.fix, log: [] };
      }
      state = answer.state;
      if (state === "running") await this.begun(run);
      else if (state === "failed") this.refused(answer.say, answer.fix, answer.log);
      else {
        this.waiting(run, answer);
        await new Promise((done) => setTimeout(done, 700));
      }
    }
  }

  waiting(run, { say }) {
    if (!this.stop) {
      this.words = el("span", { class: "small" });
      this.stop = el("button", { type: "button", class: "btn", text: "Call it off", on: { click: () => { this.stop.disabled = true; this.attempt("call_off", { run }); } } });
      put(this.going, el("div", { class: "note stack" }, el("strong", { text: `Starting ${run}` }), this.words, el("div", { class: "row" }, this.stop)));
    }
    text(this.words, visible(say));
  }

  async begun(run) {
    this.fields.set("out", undefined); // the name is taken now
    this.over();
    put(this.going);
    if (this.app.params().tab !== "train") return this.app.say(`${run} has started`);
    await this.app.runs().catch(() => null);
    return this.app.go({ tab: "groups", run }, { keep: false });
  }

  refused(message, fix, log = []) {
    this.over();
    put(this.going, el("div", { class: "note bad stack", id: "not-started" }, el("strong", { text: "It did not start." }), el("p", { text: visible(message) }), fix ? el("p", { text: `To mend it: ${visible(fix)}` }) : null,
      log.length > 2 ? el("details", null, el("summary", { text: "its log" }), el("pre", { class: "small", text: visible(log.join("\n")) })) : null));
  }

  over() {
    this.pending = this.stop = null;
    this.begin.disabled = false;
    this.keep();
  }

  attempt(name, question) {
    return this.app.attempt(() => this.app.ask(name, question));
  }
}

/** Settings whose order and reward weights may be written differently are the same. */
function canon(values) {
  const pairs = Object.entries(values).map(([k, v]) => [k, k === "reward" ? v.map((r) => (Array.isArray(r) ? (r[1] === null ? r[0] : r) : r)) : v]);
  return JSON.stringify(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const restored = () => recall(KEPT) !== null;

function restore() {
  try {
    const kept = JSON.parse(recall(KEPT)) ?? {};
    return { values: Object(kept.values) === kept.values ? kept.values : {}, hold: Array.isArray(kept.hold) ? kept.hold : [], pending: kept.pending ?? null };
  } catch {
    return { values: {}, hold: [], pending: null };
  }
}
