// One metric over a run: a small picture with a crosshair that all pictures share, and its numbers as a table.

import { attr, bytes, duration, el, known, num, pct, put, svg, text } from "./dom.js";

const [HIGH, LEFT, RIGHT, TOP, BOTTOM] = [150, 50, 12, 10, 20];
const TABLE = 600; // rows
let made = 0;

/** A number in its unit. */
export function told(value, unit) {
  if (!known(value)) return "–";
  if (unit === "share") return Math.abs(value) < 0.0995 && value !== 0 ? `${num(100 * value, 1)} %` : pct(value);
  if (unit === "bytes") return bytes(value);
  const short = Math.abs(value) >= 1e4 ? compact(value) : Math.abs(value) >= 100 ? num(value, 0)
    : value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1).replaceAll("-", "−") : String(Number(value.toPrecision(3))).replace("-", "−");
  return unit ? `${short} ${unit}` : short;
}

export function compact(value) {
  const size = Math.abs(value);
  return size >= 1e9 ? `${num(value / 1e9, 1)} G` : size >= 1e6 ? `${num(value / 1e6, 1)} M` : size >= 1e4 ? `${num(value / 1e3, 0)} k` : num(value, 0);
}

/** Round numbers from `low` to `high`, about `count` of them. */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
  const first = Math.ceil(low / size - 1e-9);
  return Array.from({ length: Math.floor(high / size + 1e-9) - first + 1 }, (_, i) => (first + i) * size);
}

/** The mean of what came before, the newer the heavier; without the pull towards 0 that it begins with. */
export function smoothed(values, weight) {
  let sum = 0;
  let mass = 0;
  return values.map((v) => {
    if (!known(v)) return null;
    sum = weight * sum + (1 - weight) * v;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

/** The place in `sorted` nearest to `value`. */
export function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

/** `hooks`: point(step or null), open(step), zoom([first, last] or null). */
export class Figure {
  constructor(line, hooks) {
    Object.assign(this, { line, hooks, id: `curve-${++made}`, runs: [], width: 0 });
    this.now = el("span", { class: "now" });
    this.help = el("span", { class: "help", role: "tooltip", id: `${this.id}-help`, text: line.help });
    this.what = el("button", { class: "what", type: "button", "aria-label": `What is ${line.label}?`, "aria-describedby": this.help.id, text: "?", on: { click: () => this.what.classList.toggle("held"), blur: () => this.what.classList.remove("held") } });
    this.grid = svg("g", { class: "grid" });
    this.band = svg("path", { class: "band" });
    this.paths = ["one", "two"].map((who) => ({ raw: svg("path", { class: `raw ${who}` }), main: svg("path", { class: `main ${who}` }) }));
    this.evals = svg("g", { class: "evals" });
    this.cross = svg("line", { class: "cross", y1: TOP, y2: HIGH - BOTTOM });
    this.dots = ["one", "two"].map((who) => svg("circle", { class: `dot ${who}`, r: 3.5 }));
    this.span = svg("rect", { class: "span", y: TOP, height: HIGH - TOP - BOTTOM });
    this.clip = svg("rect", { x: LEFT - 5, y: 0, height: HIGH });
    this.picture = svg("svg", { "aria-hidden": "true", height: HIGH },
      svg("defs", null, svg("clipPath", { id: `${this.id}-clip` }, this.clip)), this.grid,
      svg("g", { "clip-path": `url(#${this.id}-clip)` }, this.span, this.band, this.paths.map((p) => [p.raw, p.main]), this.evals, this.cross, this.dots));
    this.plot = el("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": line.label, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-describedby": this.help.id, on: this.events() }, this.picture);
    this.table = el("details", { class: "small", on: { toggle: () => this.tabulate() } }, el("summary", { text: "Numbers" }));
    this.legend = el("p", { class: "small muted key", hidden: true });
    this.node = el("figure", { class: "curve card", dataset: { name: line.name } },
      el("figcaption", null, el("h3", { text: line.label }), el("span", { class: "explain" }, this.what, this.help), this.now),
      this.plot, this.legend, this.table);
  }

  // -- drawing ------------------------------------------------------------------------------------------------------------

  /** `runs`: one or two of {name, x (places), steps, y, band, evals}; `frame`: {from, to (places), smooth, label(place)}. */
  draw(runs, frame) {
    Object.assign(this, { runs, frame });
    this.width = Math.max(200, this.plot.clientWidth || 320);
    attr(this.picture, "width", this.width);
    attr(this.clip, "width", this.width - LEFT - RIGHT + 10);
    const [low, high] = (this.range = this.extent());
    this.px = (x) => LEFT + ((x - frame.from) / (frame.to - frame.from || 1)) * (this.width - LEFT - RIGHT);
    this.py = (y) => TOP + (1 - (y - low) / (high - low)) * (HIGH - TOP - BOTTOM);
    this.drawGrid();
    this.paths.forEach((path, k) => {
      const run = runs[k];
      const even = run && frame.smooth > 0;
      attr(path.raw, "d", even ? this.trace(run.x, run.y) : null);
      const calm = even && (run.means ?? run); // of a thinned run the means: lowest and highest values have no middle
      attr(path.main, "d", even ? this.trace(calm.x, smoothed(calm.y, frame.smooth)) : run ? this.trace(run.x, run.y) : null);
    });
    attr(this.band, "d", runs[0]?.band ? this.ribbon(runs[0].band) : null);
    this.drawEvals();
    this.point(this.at ?? null);
    this.legend.hidden = !(runs[0]?.band || runs[0]?.evals?.length);
    text(this.legend, [runs[0]?.band ? "band: middle 80 % of the answers" : null, runs[0]?.evals?.length ? "■ evaluation on held-out questions, with its 95 % interval" : null].filter(Boolean).join(" · "));
    if (this.table.open) this.tabulate();
  }

  /** Lowest and highest of what is in sight, with some air. */
  extent() {
    const { from, to } = this.frame;
    const seen = [];
    for (const run of this.runs) {
      run.x.forEach((x, i) => x >= from && x <= to && known(run.y[i]) && seen.push(run.y[i]));
      run.band?.x.forEach((x, i) => x >= from && x <= to && seen.push(run.band.low[i], run.band.high[i]));
      run.evals?.forEach((e) => e.x >= from && e.x <= to && seen.push(e.y, ...(e.interval ?? [])));
    }
    const numbers = seen.filter(known);
    let low = numbers.reduce((a, b) => Math.min(a, b), Infinity);
    let high = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!numbers.length) return [0, 1];
    if (low >= 0 && (low < 0.5 * high || this.line.unit === "share")) low = 0;
    if (this.line.unit === "share" && high > 0.5 && high <= 1) high = 1;
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) return low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
    return [low, high + 0.04 * (high - low)];
  }

  trace(xs, ys) {
    const pieces = [];
    let pen = "M";
    xs.forEach((x, i) => {
      if (!known(ys[i])) return (pen = "M");
      pieces.push(`${pen}${this.px(x).toFixed(1)} ${this.py(ys[i]).toFixed(1)}`);
      pen = "L";
    });
    return pieces.length === 1 ? `${pieces[0]}h.01` : pieces.join(""); // a lone point is a dot, by its round cap
  }

  ribbon({ x, low, high }) {
    const kept = x.map((_, i) => i).filter((i) => known(low[i]) && known(high[i]));
    if (!kept.length) return null;
    const at = (i, values) => `${this.px(x[i]).toFixed(1)} ${this.py(values[i]).toFixed(1)}`;
    return `M${kept.map((i) => at(i, high)).join("L")}L${kept.reverse().map((i) => at(i, low)).join("L")}Z`;
  }

  drawGrid() {
    const [low, high] = this.range;
    const { from, to, label } = this.frame;
    const wide = this.width - RIGHT;
    const flat = ticks(low, high, 3).map((v) => [
      svg("line", { x1: LEFT, x2: wide, y1: this.py(v), y2: this.py(v) }),
      svg("text", { x: LEFT - 6, y: this.py(v) + 4, "text-anchor": "end", text: told(v, ["share", "bytes"].includes(this.line.unit) ? this.line.unit : "") })]);
    const upright = ticks(from, to, Math.max(2, Math.floor(this.width / 110))).map((v) => svg("text", { x: Math.min(this.px(v), wide - 8), y: HIGH - 4, "text-anchor": "middle", text: label(v) }));
    put(this.grid, flat, upright);
  }

  drawEvals() {
    put(this.evals, (this.runs[0]?.evals ?? []).filter((e) => known(e.y)).map((e) => {
      const [x, y] = [this.px(e.x), this.py(e.y)];
      return [e.interval ? svg("line", { x1: x, x2: x, y1: this.py(e.interval[0]), y2: this.py(e.interval[1]) }) : null,
        svg("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7 }, svg("title", { text: e.say }))];
    }));
  }

  /** Puts the crosshair at a step; null takes it away. */
  point(step) {
    this.at = step;
    const free = step === null;
    const there = this.runs.map((run, k) => ({ run, k, i: !run.steps.length ? -1 : free ? run.steps.length - 1 : nearest(run.steps, step) })).filter((p) => p.i >= 0);
    const x = free || !there.length ? null : this.px(there[0].run.x[there[0].i]);
    this.cross.style.display = x === null ? "none" : "";
    if (x !== null) attr(attr(this.cross, "x1", x), "x2", x);
    this.dots.forEach((dot, k) => {
      const at = free ? null : there.find((p) => p.k === k && known(p.run.y[p.i]));
      dot.style.display = at ? "" : "none";
      if (at) attr(attr(dot, "cx", this.px(at.run.x[at.i])), "cy", this.py(at.run.y[at.i]));
    });
    if (!there.length) return text(this.now, "");
    const { run, i } = there[0];
    const bare = ["share", "bytes"].includes(this.line.unit) ? this.line.unit : "";
    const values = there.map((p, n) => told(p.run.y[p.i], n === there.length - 1 ? this.line.unit : bare));
    text(this.now, `step ${run.steps[i]}: ${values.join(" · ")}`);
    for (const [name, value] of Object.entries({ valuemin: run.steps[0], valuemax: run.steps.at(-1), valuenow: run.steps[i], valuetext: this.now.textContent })) attr(this.plot, `aria-${name}`, value);
  }

  tabulate() {
    if (!this.table.open) return;
    const rows = this.runs.flatMap((run) => run.steps.slice(-TABLE).map((step, i) => el("tr", null,
      this.runs.length > 1 ? el("td", { text: run.name }) : null, el("td", { class: "num", text: step }), el("td", { class: "num", text: told(run.y.slice(-TABLE)[i], this.line.unit) }))));
    put(this.table, el("summary", { text: "Numbers" }), el("div", { class: "numbers", tabindex: 0, role: "region", "aria-label": `${this.line.label} as a table` }, el("table", { class: "table" },
      el("thead", null, el("tr", null, this.runs.length > 1 ? el("th", { text: "run" }) : null, el("th", { class: "num", text: "step" }), el("th", { class: "num", text: this.line.label }))), el("tbody", null, rows))));
  }

  // -- hands ----------------------------------------------------------------------------------------------------------------

  events() {
    const place = (e) => e.clientX - this.plot.getBoundingClientRect().left;
    return {
      pointerdown: (e) => {
        if (e.button) return;
        this.from = place(e);
        this.plot.setPointerCapture(e.pointerId);
      },
      pointermove: (e) => {
        if (this.from !== undefined && Math.abs(place(e) - this.from) > 5) return this.mark(this.from, place(e));
        this.hooks.point(this.stepAt(place(e)));
      },
      pointerup: (e) => {
        const [from, to] = [this.from, place(e)];
        this.drop();
        if (from === undefined) return;
        if (Math.abs(to - from) <= 5) return this.hooks.open(this.stepAt(to));
        this.hooks.zoom([from, to].sort((a, b) => a - b).map((x) => this.stepAt(x)));
      },
      pointercancel: () => this.drop(),
      pointerleave: () => this.from === undefined && document.activeElement !== this.plot && this.hooks.point(null),
      blur: () => this.hooks.point(null),
      dblclick: () => this.hooks.zoom(null),
      keydown: (e) => this.key(e),
    };
  }

  key(event) {
    const main = this.runs[0];
    if (!main?.steps.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const { from, to } = this.frame;
    const seen = main.x.map((_, i) => i).filter((i) => main.x[i] >= from && main.x[i] <= to);
    if (!seen.length) return;
    const here = this.at === null ? seen.length : seen.indexOf(Math.min(seen.at(-1), Math.max(seen[0], nearest(main.steps, this.at))));
    const size = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: here - size, ArrowRight: here + size, Home: 0, End: seen.length - 1 };
    if (event.key in moves) {
      this.at = main.steps[seen[Math.min(seen.length - 1, Math.max(0, moves[event.key]))]]; // at once: the next key may come before the next picture
      this.hooks.point(this.at);
    }
    else if (event.key === "Enter" && this.at !== null) this.hooks.open(main.steps[nearest(main.steps, this.at)]);
    else if (event.key === "Escape") this.hooks.zoom(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  stepAt(pixel) {
    const main = this.runs[0];
    if (!main?.x.length) return null;
    const { from, to } = this.frame;
    return main.steps[nearest(main.x, from + ((pixel - LEFT) / (this.width - LEFT - RIGHT)) * (to - from))];
  }

  mark(a, b) {
    attr(attr(this.span, "x", Math.min(a, b)), "width", Math.abs(a - b));
    this.span.style.display = "";
  }

  drop() {
    this.from = undefined;
    attr(this.span, "width", 0);
  }
}

/** The text of a place on the axis. */
export const axes = {
  steps: (v) => (Number.isInteger(v) ? String(v) : ""),
  time: (v) => duration(v),
  tokens: (v) => compact(v),
};
