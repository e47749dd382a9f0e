// A run over time: one small picture per metric, one crosshair for all of them, and a second run laid over the first.

import { differences } from "./differences.js";
import { arrange, el, known, pct, plural, put, recall, remember, save, text, visible } from "./dom.js";
import { axes, Figure } from "./figure.js";

const AXES = { steps: "steps", time: "training time", tokens: "tokens written" };
const HINTS = 4; // shown at once

export function mount(root, app) {
  return new Curves(root, app);
}

class Curves {
  constructor(root, app) {
    Object.assign(this, { root, app, figures: new Map(), data: {}, zoom: null, gone: new Set(), seen: "" });
    this.keys = { Escape: () => this.setZoom(null) };
    this.frame();
    new ResizeObserver(() => this.later()).observe(this.grid);
  }

  frame() {
    const kept = (name, otherwise) => recall(`curves.${name}`, otherwise);
    const keep = (name, value) => remember(`curves.${name}`, value);
    this.axis = AXES[kept("axis")] ? kept("axis") : "steps";
    this.smooth = Math.min(0.98, Math.max(0, Number(kept("smooth", "0.5")) || 0));
    this.axisPick = el("select", { id: "curve-axis", on: { change: (e) => { keep("axis", (this.axis = e.target.value)); this.draw(); } } },
      Object.entries(AXES).map(([value, label]) => el("option", { value, text: label, selected: value === this.axis })));
    this.slider = el("input", { id: "curve-smooth", type: "range", min: 0, max: 0.98, step: 0.02, value: this.smooth, on: { input: (e) => { keep("smooth", (this.smooth = Number(e.target.value))); this.draw(); } } });
    this.other = el("select", { id: "curve-with", on: { change: (e) => this.app.go({ with: e.target.value || null }) } });
    this.reset = el("button", { class: "btn", id: "zoom-out", hidden: true, text: "Show all steps", on: { click: () => this.setZoom(null) } });
    this.csv = el("button", { class: "btn", id: "csv", text: "Download CSV", title: "the numbers that are drawn here", on: { click: () => this.download() } });
    const field = (label, input) => el("div", { class: "field" }, el("label", { for: input.id, text: label }), input);
    this.tools = el("div", { class: "tools row" }, field("Along", this.axisPick), field("Smooth", this.slider), field("Compare with", this.other), this.reset, this.csv);
    this.names = el("p", { class: "names", hidden: true });
    this.hints = el("div", { class: "stack hints" });
    this.how = el("p", { class: "small muted", text: "Click a point, or press Enter on it, to see its groups. Drag to look closer. ← and → move the line." });
    this.grid = el("div", { class: "pictures" });
    this.loss = el("div", { class: "card loss" }, el("h3", { text: "Loss" }), el("p", { class: "muted", text: "Not shown. With one update per rollout it is about 0 whatever the model learns: advantages of a group add up to 0. Its gradient is not 0. Watch the reward and the signal." }));
    this.diff = el("details", { class: "card", id: "diff", hidden: true });
    this.nothing = el("div", { class: "empty", hidden: true });
    this.body = el("div", { class: "stack" }, this.tools, this.names, this.hints, this.how, this.grid, this.diff);
    this.root.classList.add("curves");
    put(this.root, this.body, this.nothing);
  }

  // -- what main.js asks ----------------------------------------------------------------------------------------------------

  show() {
    this.seen = "";
    this.options();
    return this.load();
  }

  hide() {}

  /** A poll's answer: something to fetch only if the run has moved. */
  tick(answer) {
    if (!answer) return this.app.list.length ? this.none("This run cannot be read.", "Choose another one above.") : this.none("Nothing trained yet.", "Start a run, or watch a recorded one, and its curves grow here.");
    const { state, phase, step } = answer.status;
    const now = [answer.run, this.second(), state, phase, step].join("/");
    if (now === this.seen) return;
    this.seen = now;
    this.options();
    this.load();
  }

  second() {
    const wanted = this.app.params().with;
    return wanted && wanted !== this.app.run() ? wanted : null;
  }

  options() {
    const rows = this.app.list.filter((r) => r.id !== this.app.run());
    const wanted = [["", "no other run"], ...rows.map((r) => [r.id, r.name])];
    const key = JSON.stringify(wanted);
    if (this.offered !== key) put(this.other, wanted.map(([value, label]) => el("option", { value, text: label })));
    this.offered = key;
    this.other.value = this.second() ?? "";
  }

  async load() {
    if (this.loading) return (this.again = true);
    this.loading = true;
    try {
      do {
        this.again = false;
        await this.fetch();
      } while (this.again);
    } finally {
      this.loading = false;
    }
  }

  async fetch() {
    const ids = [this.app.run(), this.second()].filter(Boolean);
    if (!ids.length) return;
    if (this.shown !== ids[0]) this.zoom = null;
    this.shown = ids[0];
    let news = ids.join("/") !== this.drawn;
    for (const id of ids) {
      try {
        const answer = await this.app.ask("curves", { run: id, points: 600, rev: this.data[id]?.rev ?? null });
        if (answer.same) continue;
        this.data[id] = answer;
        news = true;
        if (answer.more) this.soon(); // the server is still reading the groups of a long run
      } catch (error) {
        if (id === ids[0] && !this.data[id]) return this.none(error.message, error.fix ?? "");
        if (id !== ids[0]) this.app.say(error.message);
      }
    }
    if (ids[0] !== this.app.run()) return (this.again = true);
    for (const id of Object.keys(this.data)) if (!ids.includes(id)) delete this.data[id];
    this.drawn = ids.join("/");
    if (news) this.draw();
    this.root.dataset.ready = "1";
  }

  soon() {
    clearTimeout(this.waits);
    this.waits = setTimeout(() => this.root.hidden || this.load(), 300);
  }

  none(title, more) {
    this.drawn = null;
    this.seen = "";
    this.body.hidden = true;
    this.nothing.hidden = false;
    put(this.nothing, el("h2", { text: title }), more ? el("p", { text: more }) : null);
    this.root.dataset.ready = "1";
  }

  // -- drawing ----------------------------------------------------------------------------------------------------------------

  later() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.grid.clientWidth && this.grid.clientWidth !== this.wide && this.draw());
  }

  draw() {
    const ids = this.drawn?.split("/") ?? [];
    const runs = ids.map((id) => this.data[id]).filter(Boolean);
    if (!runs.length) return;
    const lines = merged(runs.map((run) => run.series));
    if (!lines.length) return this.none("No step is done yet.", "The curves begin with the first step.");
    this.body.hidden = false;
    this.nothing.hidden = true;
    if (!this.timed(runs)) this.axis = this.axisPick.value = "steps";
    this.wide = this.grid.clientWidth;
    const frame = this.frameOf(runs);
    const shown = lines.map((line) => {
      if (!this.figures.has(line.name)) this.figures.set(line.name, new Figure(line, this.hooks()));
      return this.figures.get(line.name);
    });
    arrange(this.grid, [...shown.map((f) => f.node), this.loss]);
    for (const figure of shown) figure.draw(runs.map((run, k) => this.place(run, figure.line.name, k === 0)), frame);
    this.reset.hidden = !this.zoom;
    this.drawNames(ids);
    this.drawHints(runs[0].hints ?? []);
    this.drawDiff(ids);
  }

  /** Whether the numbers say how long a step took; a TRL folder does not. */
  timed(runs) {
    const able = { steps: true, time: runs.some((r) => r.seconds.at(-1) > 0), tokens: runs.some((r) => r.tokens.at(-1) > 0) };
    for (const option of this.axisPick.options) option.disabled = !able[option.value];
    return able[this.axis];
  }

  frameOf(runs) {
    const places = runs.flatMap((run) => {
      const at = placer(run, this.axis);
      const ends = [run.steps[0], run.steps.at(-1), ...(run.evals ?? []).map((e) => e.step)].filter(known);
      return ends.map(at);
    });
    const at = placer(runs[0], this.axis);
    const [from, to] = this.zoom ? this.zoom.map(at) : [Math.min(...places), Math.max(...places)];
    return { from, to: to > from ? to : from + 1, smooth: this.smooth, label: axes[this.axis] };
  }

  /** One run's part of a picture, with its places along the axis. */
  place(run, name, first) {
    const at = placer(run, this.axis);
    const series = run.series.find((s) => s.name === name) ?? { y: [], x: [] };
    const steps = series.x ?? run.steps;
    const reward = name === "reward/mean" && first;
    const evals = (run.evals ?? []).map((e) => {
      const y = run.main === "lenient" && known(e.lenient) ? e.lenient : e.strict;
      const range = e.interval ? `, 95 % interval ${pct(e.interval[0])} to ${pct(e.interval[1])}` : "";
      return { x: at(e.step), y, interval: e.interval, say: `after step ${e.step}: ${pct(y)} of ${e.n ?? "?"} held-out questions (${run.main})${range}` };
    });
    return {
      name: run.run, steps, y: series.y, x: steps.map(at), means: series.means ? { x: run.steps.map(at), y: series.means } : null, evals: reward ? evals : null,
      band: reward && run.band ? { x: (run.band.steps ?? run.steps).map(at), low: run.band.low, high: run.band.high } : null,
    };
  }

  drawNames(ids) {
    this.names.hidden = ids.length < 2;
    if (ids.length < 2) return;
    put(this.names, ids.map((id, k) => [el("span", { class: `stroke ${["one", "two"][k]}`, "aria-hidden": "true" }), el("span", { text: `${this.nameOf(id)} (${["solid", "dashed"][k]})` })]));
  }

  nameOf(id) {
    return this.app.list.find((r) => r.id === id)?.name ?? id;
  }

  drawHints(hints) {
    const last = new Map(); // of each kind the newest
    for (const hint of hints) last.set(hint.name, { ...hint, times: (last.get(hint.name)?.times ?? 0) + 1 });
    const open = [...last.values()].reverse().filter((h) => !this.gone.has(`${this.shown}|${h.name}|${h.step}`)).slice(0, HINTS);
    const key = JSON.stringify(open);
    if (key === this.hinted) return;
    this.hinted = key;
    put(this.hints, open.map((hint) => el("div", { class: "note warn hint" },
      el("div", { class: "grow" }, el("p", { text: `Step ${hint.step}, ${visible(hint.name)}: ${visible(hint.message.split("\n")[0])}${hint.times > 1 ? ` (${plural(hint.times, "time")})` : ""}` }), hint.fix ? el("p", { class: "small", text: `What helps: ${visible(hint.fix)}` }) : null),
      el("button", { class: "btn quiet", text: "Dismiss", on: { click: () => { this.gone.add(`${this.shown}|${hint.name}|${hint.step}`); this.drawHints(hints); } } }))));
  }

  drawDiff(ids) {
    this.diff.hidden = ids.length < 2;
    if (ids.length < 2 || this.diffed === this.drawn) return;
    this.diffed = this.drawn;
    const inside = el("div");
    put(this.diff, el("summary", { text: "What was set differently" }), inside);
    differences(inside, this.app, ids, ids.map((id) => this.nameOf(id)));
  }

  // -- hands --------------------------------------------------------------------------------------------------------------------

  hooks() {
    return {
      point: (step) => this.point(step),
      open: (step) => step !== null && this.app.go({ tab: "groups", step, open: null, offset: null }),
      zoom: (range) => this.setZoom(range),
    };
  }

  point(step) {
    this.at = step;
    cancelAnimationFrame(this.moving);
    this.moving = requestAnimationFrame(() => this.figures.forEach((figure) => figure.node.isConnected && figure.point(this.at)));
  }

  setZoom(range) {
    this.zoom = range && known(range[0]) && range[1] > range[0] ? range : null;
    this.draw();
  }

  download() {
    const ids = this.drawn?.split("/").filter((id) => this.data[id]) ?? [];
    const names = [...new Set(ids.flatMap((id) => this.data[id].series.map((s) => s.name)))];
    const rows = [["run", "step", ...names]];
    for (const id of ids) rows.push(...table(this.data[id], names).map((row) => [id, ...row]));
    save(`${ids.join("-and-")}.csv`, rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n", "text/csv");
  }
}

/** The series of one or two runs, each once: what only the second has stands where it stands there. */
function merged([one, two = []]) {
  const lines = [...one];
  two.forEach((line, i) => {
    if (lines.some((l) => l.name === line.name)) return;
    lines.splice(lines.findIndex((l) => l.name === two[i - 1]?.name) + 1, 0, line);
  });
  return lines;
}

/** From a step to its place along the axis: between two steps that are known, on the line between them. */
function placer(run, axis) {
  if (axis === "steps" || !run.steps.length) return (step) => step;
  const [steps, values] = [run.steps, axis === "time" ? run.seconds : run.tokens];
  return (step) => {
    if (step <= 0) return 0;
    let low = 0;
    let high = steps.length - 1;
    if (step >= steps[high]) return values[high];
    if (step <= steps[0]) return values[0];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] <= step) low = middle;
      else high = middle;
    }
    return values[low] + ((step - steps[low]) / (steps[high] - steps[low])) * (values[high] - values[low]);
  };
}

/** Rows of [step, value of each name]; a value that was not sent is empty. */
function table(run, names) {
  const found = new Map();
  names.forEach((name, k) => {
    const series = run.series.find((s) => s.name === name);
    (series?.x ?? (series ? run.steps : [])).forEach((step, i) => {
      if (!found.has(step)) found.set(step, names.map(() => null));
      found.get(step)[k] = series.y[i];
    });
  });
  return [...found].sort(([a], [b]) => a - b).map(([step, values]) => [step, ...values]);
}

/** A cell that no spreadsheet takes for a formula: text that begins like one gets a quote before it. */
export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const plain = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${plain.replaceAll('"', '""')}"`;
}
