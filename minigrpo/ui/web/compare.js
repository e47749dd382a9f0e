// Compare: what base and adapter answer on the same held-out questions, how sure that is, and question by question.

import { Lost } from "./ask.js";
import { attr, copy, el, known, num, plural, put, svg, text, visible } from "./dom.js";

const SIDES = ["base", "adapter"];
const COUNTS = [16, 64, 200, 1000];
const SLOW = 10000, QUICK = 2000; // ms between two looks: nothing goes on, an evaluation does
const PAGE = 50; // questions drawn at once
const LONG = 700; // characters of an answer that are shown at once
const SHOW = {
  all: ["All", () => true], differ: ["Only where they differ", (b, a) => b !== a], gained: ["Adapter better", (b, a) => a > b], lost: ["Base better", (b, a) => b > a],
  right: ["Both right", (b, a) => b >= 1 && a >= 1], wrong: ["Both wrong", (b, a) => b <= 0 && a <= 0], cut: ["Cut off", (b, a, row) => row.base.cut || row.adapter.cut],
};

export function mount(root, app) {
  return new Compare(root, app);
}

class Compare {
  constructor(root, app) {
    Object.assign(this, { root, app, answer: null, others: [], chosen: null, rows: null, filter: "differ", drawn: PAGE, runShown: null, looked: 0 });
    this.frame();
  }

  frame() {
    const field = (label, input) => el("label", { class: "field" }, el("span", { class: "label", text: label }), input);
    this.count = el("select", { name: "n", on: { change: () => this.price() } }, COUNTS.map((n) => el("option", { value: n, text: String(n), selected: n === 64 })));
    this.which = el("select", { name: "which", on: { change: () => this.price() } });
    this.starter = el("button", { class: "btn primary", text: "Run evaluation", on: { click: () => this.evaluate() } });
    this.cost = el("span", { class: "cmp-cost muted small", role: "status" });
    this.form = el("div", { class: "row cmp-form" }, field("Questions", this.count), field("Adapter", this.which), this.starter, this.cost);
    this.note = el("div", { class: "cmp-note stack" });
    this.beside = el("select", { name: "beside", "aria-label": "Also show the results of", on: { change: () => this.look() } });
    this.table = el("div", { class: "scroll" });
    this.words = el("div", { class: "stack" });
    this.chips = el("div", { class: "row", role: "group", "aria-label": "Which questions" });
    this.list = el("div", { class: "cmp-rows" });
    this.more = el("button", { class: "btn", hidden: true, on: { click: () => ((this.drawn += PAGE), this.drawRows()) } });
    this.empty = el("div", { class: "empty", hidden: true });
    this.besides = el("label", { class: "row small muted" }, "also the results of", this.beside);
    put(this.root, el("div", { class: "card stack" }, el("h2", { text: "Held-out questions, base and adapter" }), this.form, this.note),
      this.empty, el("div", { class: "stack cmp-results" }, this.besides, this.table, this.words, this.chips, this.list, this.more));
  }

  async show() {
    await this.look();
    this.root.dataset.ready = "1";
  }

  hide() {
    clearTimeout(this.watch);
  }

  tick() {
    if (this.app.run() !== this.runShown || Date.now() - this.looked > SLOW) this.look();
  }

  // -- what there is ----------------------------------------------------------------------------------------------------

  async look() {
    this.looked = Date.now();
    const run = this.app.run();
    if (run !== this.runShown) Object.assign(this, { runShown: run, answer: null, others: [], chosen: null, rows: null });
    this.beyond();
    if (!run) return this.draw();
    const other = this.beside.value;
    const [answer, beside] = await Promise.all([this.tried("evals", { run }), other ? this.tried("evals", { run: other }) : null]);
    if (run !== this.runShown) return null;
    const before = this.answer;
    if (answer) this.answer = answer;
    this.others = beside ? beside.results.map((r) => ({ ...r, run: other })) : [];
    this.picks();
    if (before?.running && !answer?.running) await this.ended(before);
    if (!before || (before.running && !this.answer?.running)) this.price();
    this.draw();
    await this.choose(this.app.params().result);
    clearTimeout(this.watch);
    if (this.answer?.running && !this.root.hidden) this.watch = setTimeout(() => this.look(), QUICK); // polls of a run at rest are rare
    return null;
  }

  ended(before) {
    const fresh = this.answer.results.find((r) => !before.results.some((b) => b.id === r.id));
    if (!fresh) return null;
    this.app.say("The evaluation is finished.");
    return this.app.go({ result: fresh.id }, { replace: true });
  }

  /** Other runs whose results can stand beside. */
  beyond() {
    const names = this.app.list.filter((r) => r.id !== this.runShown).map((r) => r.id);
    if (names.join("\n") === this.named) return;
    this.named = names.join("\n");
    const before = this.beside.value;
    put(this.beside, el("option", { value: "", text: "no other run" }), names.map((n) => el("option", { value: n, text: n })));
    if (names.includes(before)) this.beside.value = before;
    this.besides.hidden = !names.length;
  }

  picks() {
    const { steps = [], final } = this.answer ?? {};
    const wanted = [...(final ? [["", "final adapter"]] : []), ...steps.toReversed().map((s) => [String(s), `step ${s}`])];
    if (wanted.map(String).join() === this.offered) return;
    this.offered = wanted.map(String).join();
    const before = this.which.value;
    put(this.which, wanted.map(([value, label]) => el("option", { value, text: label })));
    if (wanted.some(([v]) => v === before)) this.which.value = before;
  }

  // -- running one ------------------------------------------------------------------------------------------------------

  query() {
    return null;
  }

  asked() {
    return { run: this.runShown, n: Number(this.count.value), step: this.which.value === "" ? null : Number(this.which.value) };
  }

  able() {
    return Boolean(this.answer && this.app.can.train && !this.answer.refused && !this.answer.running && this.which.options.length);
  }

  async price() {
    if (!this.able()) return;
    const answer = await this.tried("evaluate", { ...this.asked(), dry: true });
    if (answer && this.able()) text(this.cost, answer.say);
  }

  async evaluate() {
    attr(this.starter, "disabled", "");
    const answer = await this.tried("evaluate", this.asked());
    if (answer) this.app.say(`Started: ${answer.say}.`);
    await this.look();
  }

  // -- drawing ----------------------------------------------------------------------------------------------------------

  draw() {
    const { results = [], running, failed, refused } = this.answer ?? {};
    const noAdapter = this.answer && !this.which.options.length;
    this.form.hidden = !this.app.can.train || Boolean(refused) || !this.answer || noAdapter;
    attr(this.starter, "disabled", this.able() ? null : "");
    put(this.note,
      running ? el("p", { class: "note", text: `Evaluating: ${running.say}.` }) : null,
      refused ? el("div", { class: "note" }, `Not started from here: ${refused.say}. In a terminal: `, el("code", { text: refused.command }), " ",
        el("button", { class: "btn quiet", text: "Copy", on: { click: async () => this.app.say((await copy(refused.command)) ? "Copied." : "The browser did not allow it.") } })) : null,
      noAdapter && !refused ? el("p", { class: "note", text: this.app.status()?.replay ? "A recording has no adapter to evaluate: train a run of your own." : "No adapter is saved yet: it comes with the first checkpoint." }) : null,
      failed ? el("details", { class: "note bad" }, el("summary", { text: `${failed.say}.` }), el("pre", { text: visible(failed.log) || "It said nothing." })) : null);
    if (running) text(this.cost, "");
    const all = this.all();
    this.empty.hidden = all.length > 0 || !this.answer;
    put(this.empty, el("h2", { text: "No evaluation yet." }), el("p", { text: results.length ? "" : "An evaluation asks base and adapter the same held-out questions, greedily, and counts what is right." }));
    this.table.parentNode.hidden = !all.length;
    if (all.length) this.drawTable(all);
  }

  all() {
    return [...(this.answer?.results ?? []), ...this.others];
  }

  drawTable(all) {
    const several = this.others.length > 0;
    const head = [...(several ? ["Run"] : []), "Checkpoint", "When", "n", "Base", "Adapter", "Better / worse / same", "p"];
    put(this.table, el("table", { class: "table cmp-table" },
      el("caption", { class: "visually-hidden", text: "Evaluations, newest first: share of right answers with its 95 % interval" }),
      el("thead", null, el("tr", null, head.map((h) => el("th", { scope: "col", text: h, title: TITLES[h] ?? null })))),
      el("tbody", null, all.map((r) => this.line(r, several)))));
  }

  line(r, several) {
    const chosen = r.id === this.chosen?.id && r.run === this.chosen?.run;
    const pick = el("button", { class: "btn quiet cmp-pick", "aria-pressed": String(chosen), text: r.step === "final" ? "final" : `step ${r.step}`, disabled: !r.has_answers,
      title: r.has_answers ? "shows its questions" : "an older result: its answers were not kept", on: { click: () => this.app.go({ result: r.id }, { replace: true }) } });
    const when = new Date(1000 * r.t);
    return el("tr", { dataset: { result: r.id }, class: chosen ? "cmp-chosen" : null },
      several ? el("td", null, el("bdi", { text: r.run ?? this.runShown })) : null, el("td", null, pick),
      el("td", { class: "small", title: visible(r.task) }, when.toLocaleString([], { dateStyle: "short", timeStyle: "short" })),
      el("td", { class: "num", title: known(r.seed) ? `seed ${r.seed}` : null, text: String(r.n) }),
      SIDES.map((side) => el("td", { class: "cmp-share" }, this.share(r, side))),
      el("td", { text: known(r.wins) ? `${r.wins} / ${r.losses} / ${r.ties}` : "–" }), el("td", { class: "num", text: p(r.paired_p) }));
  }

  /** A share in words and as a bar with its interval. */
  share(r, side) {
    const value = r[side][r.main], interval = r[side].interval;
    if (!interval) return el("span", { text: num(value) });
    return [el("span", { class: "cmp-words" }, el("b", { text: percent(value) }), el("span", { class: "small muted", text: ` ${percent(interval[0])} to ${percent(interval[1])}` })), bar(value, interval, side)];
  }

  // -- one result -------------------------------------------------------------------------------------------------------

  async choose(wanted) {
    const all = this.all();
    const result = all.find((r) => r.id === wanted && r.has_answers) ?? all.find((r) => r.has_answers) ?? null;
    if (result && result.id === this.chosen?.id && result.run === this.chosen?.run) return;
    Object.assign(this, { chosen: result, rows: null, drawn: PAGE });
    if (all.length) this.drawTable(all);
    this.drawWords(result ?? all[0]);
    if (result) {
      const answer = await this.tried("eval_rows", { run: result.run ?? this.runShown, id: result.id });
      if (this.chosen !== result) return;
      this.rows = (answer?.rows ?? []).map((row) => ({ ...row, pair: SIDES.map((s) => counted(row[s], result.main)) }));
      if (!this.rows.some((row) => SHOW[this.filter][1](...row.pair, row))) this.filter = "all";
    }
    this.drawChips();
    this.drawRows();
  }

  drawWords(r) {
    if (!r) return put(this.words);
    const [b, a] = SIDES.map((s) => r[s][r.main]);
    const gain = `Base ${percent(b)}, with the adapter ${percent(a)}: ${points(a - b)}`;
    const sure = !known(r.paired_p) ? "" : r.paired_p > 0.05 ? `, no clear difference on ${plural(r.n, "question")} (p = ${p(r.paired_p)})` : `, a clear difference (p = ${p(r.paired_p)})`;
    const half = Math.max(...SIDES.map((s) => (r[s].interval ? (r[s].interval[1] - r[s].interval[0]) / 2 : 0)));
    const name = r.main === "lenient" ? "lenient: the last number counts where the answer is not given alone" : "strict";
    return put(this.words,
      el("p", { class: "cmp-say", text: `${gain}${sure}.` }),
      half > 0.1 ? el("p", { class: "note warn", text: `n = ${r.n}: the interval is ±${Math.round(100 * half)} points. Ask more questions before you trust a small gain.` }) : null,
      el("p", { class: "small muted" }, `Greedy, the same prompt and limit for both, seed ${known(r.seed) ? r.seed : "not kept"}, scored ${name}. Task `, el("bdi", { class: "mono", text: visible(r.task) }), "."));
  }

  drawChips() {
    const rows = this.rows ?? [];
    const chips = Object.entries(SHOW).map(([key, [label, fits]]) => [key, label, rows.filter((row) => fits(...row.pair, row)).length]);
    put(this.chips, this.rows ? chips.filter(([key, , n]) => n || key === this.filter || key === "all").map(([key, label, n]) =>
      el("button", { class: "chip", "aria-pressed": String(key === this.filter), dataset: { show: key }, text: `${label} ${n}`, on: { click: () => this.sift(key) } })) : null);
  }

  sift(key) {
    Object.assign(this, { filter: key, drawn: PAGE });
    this.drawChips();
    this.drawRows();
    this.chips.querySelector('[aria-pressed="true"]')?.focus();
  }

  drawRows() {
    const found = (this.rows ?? []).filter((row) => SHOW[this.filter][1](...row.pair, row));
    put(this.list, found.slice(0, this.drawn).map((row) => this.row(row)),
      this.rows && !found.length ? el("p", { class: "empty", text: "No question is like that." }) : null);
    this.more.hidden = found.length <= this.drawn;
    text(this.more, `Show more (${found.length - this.drawn} left)`);
  }

  row(row) {
    const gold = typeof row.gold === "string" ? row.gold : JSON.stringify(row.gold);
    return el("article", { class: "cmp-row" },
      el("div", { class: "cmp-asked" }, el("bdi", { class: "cmp-text", text: visible(row.question) }), el("span", { class: "small" }, el("span", { class: "muted", text: "right answer " }), el("bdi", { class: "mono", text: visible(gold) }))),
      SIDES.map((side, i) => el("div", { class: "cmp-side", dataset: { side } },
        el("span", { class: "row small" }, el("span", { class: "muted", text: side === "base" ? "Base" : "Adapter" }), mark(row[side], row.pair[i], this.chosen.main)),
        said(row[side]))));
  }

  async tried(name, q) {
    try {
      return await this.app.ask(name, q);
    } catch (error) {
      const lost = error instanceof Lost;
      if (!lost && error.fix === undefined) throw error;
      if (!lost) this.app.say(`${error.message}. ${error.fix}`);
      return null;
    }
  }
}

const TITLES = {
  n: "how many questions", Base: "share of right answers, and its 95 % interval (Wilson)", "Better / worse / same": "on how many questions the adapter scored higher, lower, the same",
  p: "how likely a difference like this is by luck alone (exact McNemar test on the questions where they differ)",
};

const percent = (x) => (known(x) ? `${Math.round(100 * x)} %` : "–");
const points = (x) => `${x < 0 ? "−" : "+"}${Math.abs(100 * x).toFixed(1)} points`;
const p = (x) => (!known(x) ? "–" : x < 0.001 ? "< 0.001" : x.toPrecision(2));

function counted(answer, main) {
  return main === "lenient" && known(answer.lenient) ? answer.lenient : answer.value ?? 0;
}

function mark(answer, value, main) {
  const kind = value >= 1 ? "right" : value > 0 ? "partly" : answer.status === "unreadable" && main === "strict" ? "unreadable" : "wrong";
  const words = { right: "✓ right", partly: `◐ ${num(value)}`, wrong: "✗ wrong", unreadable: "∅ no answer read" };
  return [el("span", { class: "cmp-mark", dataset: { verdict: kind }, text: words[kind] }), answer.cut ? el("span", { class: "muted", text: "✂ cut off" }) : null];
}

/** What was answered; of a long text the beginning, until it is opened. */
function said({ text: words, more }) {
  const whole = visible(words) + (more ? " … (clipped)" : "");
  const body = (value) => el("div", { class: "cmp-text", dir: "auto", text: value || "(nothing)" });
  if (whole.length <= LONG) return body(whole);
  return el("details", null, el("summary", { class: "cmp-text", text: `${whole.slice(0, LONG)} …` }), body(whole.slice(LONG)));
}

/** A bar from 0 to 1 with the whiskers of its interval. */
function bar(value, [low, high], side) {
  const x = (v) => (100 * v).toFixed(1);
  return svg("svg", { class: "cmp-bar", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true", dataset: { side } },
    svg("rect", { class: "cmp-back", x: 0, y: 2, width: 100, height: 8 }), svg("rect", { class: "cmp-fill", x: 0, y: 2, width: x(value), height: 8 }),
    svg("path", { class: "cmp-whisker", d: `M${x(low)} 6H${x(high)}M${x(low)} 1V11M${x(high)} 1V11`, "vector-effect": "non-scaling-stroke" }));
}
