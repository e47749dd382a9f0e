// The board: every group of a step, live or pinned, filtered, sorted, searched; nothing moves under the reader's eyes.

import { arrange, attr, debounce, el, known, LIVE, num, pct, plural, put, svg, text } from "./dom.js";
import { group as drawn } from "./group.js";
import { lens } from "./lens.js";

const SHOW = {
  all: "All", mixed: "Mixed", no_signal: "No signal", all_wrong: "All without marks", all_right: "All full marks", cut: "Cut off",
  unreadable: "No answer found", failed: "Reward failed", starred: "★ Starred",
};
const MEANS = { mixed: "groups whose rewards differ: these teach", no_signal: "groups whose rewards are all equal: these teach nothing", cut: "groups with an answer that was cut off", unreadable: "groups with an answer in which nothing could be read", failed: "groups in which a reward failed" };
const ALWAYS = ["all", "mixed", "no_signal", "starred"];
const SORT = { order: "as sampled", newest: "newest first", spread: "largest spread", advantage: "largest advantage", lowest: "lowest reward", longest: "longest", cut: "most cut off" };
const KEPT = 100; // groups whose elements stay in memory: a page of 50, and where one came from

export function mount(root, app) {
  return new Board(root, app);
}

class Board {
  constructor(root, app) {
    Object.assign(this, { root, app, cache: new Map(), board: null, seen: null, steps: { list: [] }, runShown: null });
    this.keys = {
      j: () => this.hop(1), k: () => this.hop(-1), Enter: () => this.here()?.flip(), ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1),
      l: () => this.live(), "/": () => this.search.focus(), z: () => this.filter(this.app.params().show === "no_signal" ? "all" : "no_signal"),
      t: () => this.within("tokens"), d: () => this.within("diff"), s: () => this.here()?.star(), c: () => this.within("copy"),
    };
    this.frame();
  }

  frame() {
    const button = (label, title, act) => el("button", { class: "btn", text: label, title, "aria-label": title, on: { click: act } });
    this.slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Step", on: { input: (e) => this.slide(e), change: () => this.app.refresh() } });
    this.place = el("input", { type: "number", class: "place", min: 0, "aria-label": "Step number", on: { change: (e) => e.target.value && this.pin(Number(e.target.value)) } });
    this.of = el("span", { class: "muted small" });
    this.mode = el("button", { class: "btn mode", id: "mode", on: { click: () => (this.pinned() ? this.live() : this.pin(this.board?.step)) } });
    this.fresh = el("button", { class: "btn primary", id: "fresh", hidden: true, on: { click: () => this.live() } });
    this.playing = el("button", { class: "btn", text: "▶ Play", title: "play the steps one after the other", on: { click: () => this.play() } });
    this.speed = el("select", { "aria-label": "Steps a second", class: "speed" }, [2, 4, 8].map((n) => el("option", { value: n, text: `${n} a second` })));
    this.sparks = el("span", { class: "sparks" });
    this.chips = el("div", { class: "row", role: "group", "aria-label": "Show" });
    this.scope = el("select", { "aria-label": "Where", class: "scope", on: { change: (e) => this.set({ scope: e.target.value === "step" ? null : e.target.value }) } },
      el("option", { value: "step", text: "in this step" }), el("option", { value: "run", text: "in all steps" }));
    this.sort = el("select", { "aria-label": "Sort", class: "sort", on: { change: (e) => this.set({ sort: e.target.value === "order" ? null : e.target.value }) } }, Object.entries(SORT).map(([value, label]) => el("option", { value, text: label })));
    this.search = el("input", { type: "search", placeholder: "search questions and answers", "aria-label": "Search", maxlength: 200, on: { input: debounce((e) => this.find(e.target.value), 200) } });
    this.words = el("p", { class: "stepsay", id: "stepsay" });
    this.lensing = el("button", { class: "btn", text: "Lens", "aria-expanded": "false", title: "length against reward, and the words that pay", on: { click: () => this.look() } });
    this.lens = el("div", { hidden: true });
    this.legend = el("p", { class: "legend small muted" });
    this.list = el("ul", { class: "groups", "aria-label": "Groups" });
    this.nothing = el("div", { class: "empty", hidden: true });
    this.pages = el("div", { class: "row pages" });
    put(this.root,
      el("div", { class: "travel" },
        el("span", { class: "row" }, button("◀", "one step back", () => this.move(-1)), button("▶", "one step forth", () => this.move(1))),
        this.slider, el("span", { class: "row" }, el("span", { class: "muted small", text: "viewing step" }), this.place, this.of), this.mode, this.fresh,
        el("span", { class: "row" }, this.playing, this.speed), this.sparks),
      this.words,
      el("div", { class: "sieve" }, this.chips, el("span", { class: "row tools" }, this.scope, this.sort, el("span", { class: "searchbox" }, this.search), this.lensing)),
      this.lens, this.legend, this.list, this.nothing, this.pages);
  }

  // -- what main.js asks ------------------------------------------------------------------------------------------------

  show() {
    const p = this.app.params();
    if (document.activeElement !== this.search) this.search.value = p.search ?? "";
    this.sort.value = SORT[p.sort] ? p.sort : "order";
    this.scope.value = p.scope === "run" ? "run" : "step";
    this.drawMode();
  }

  hide() {
    this.stop();
  }

  query() {
    const p = this.app.params();
    const step = Number.parseInt(p.step, 10);
    return {
      step: Number.isFinite(step) ? step : "live", scope: p.scope === "run" ? "run" : "step", show: SHOW[p.show] ? p.show : "all", sort: SORT[p.sort] ? p.sort : "order",
      search: (p.search ?? "").slice(0, 200), offset: Math.max(0, Number.parseInt(p.offset, 10) || 0), known: [...this.cache.keys()].slice(-KEPT),
    };
  }

  tick(answer) {
    if (!answer) return this.none();
    if (answer.run !== this.runShown) {
      this.runShown = answer.run;
      this.cache.clear();
      this.board = this.seen = null;
      this.sparked = null;
      if (!answer.board || answer.board.same) return this.app.refresh();
    }
    this.live_ = LIVE.includes(answer.status.state);
    if (answer.spark && answer.spark !== this.sparked) this.spark(answer.spark);
    if (answer.board && !answer.board.same) this.draw(answer.board);
    this.drawLens();
    this.root.dataset.ready = "1";
  }

  // -- drawing ------------------------------------------------------------------------------------------------------------

  draw(board) {
    this.board = board;
    this.steps = board.steps ?? {};
    this.stepList = board.list ?? [];
    for (const summary of board.groups) this.cache.set(summary.key, drawn(this.app, this, summary));
    const nodes = board.keys.map((key) => this.cache.get(key)).filter(Boolean);
    if (nodes.length < board.keys.length) this.app.refresh(); // an element was let go of meanwhile: ask for it again
    for (const key of [...this.cache.keys()]) {
      if (this.cache.size <= KEPT) break;
      if (!board.keys.includes(key)) this.cache.delete(key);
    }
    arrange(this.list, nodes.map((n) => n.node));
    for (const node of nodes) node.refresh(board.stars?.includes(node.summary.key));
    this.drawTravel();
    this.drawChips();
    text(this.words, board.step_say ?? "");
    this.drawLegend(nodes);
    this.drawNothing(board);
    this.drawPages(board);
    this.reopen();
  }

  look() {
    this.lens.hidden = !this.lens.hidden;
    attr(this.lensing, "aria-expanded", String(!this.lens.hidden));
    this.drawLens();
  }

  /** For the step that is shown, unless it is there already; while steps are played it waits. */
  async drawLens() {
    const [run, step] = [this.runShown, this.board?.step];
    const wanted = `${run} ${step}`;
    if (this.lens.hidden || this.timer || !known(step) || this.lensed === wanted) return;
    this.lensed = wanted;
    try {
      const answer = await this.app.ask("lens", { run, step });
      if (this.lensed === wanted) put(this.lens, lens(answer));
    } catch (error) {
      if (this.lensed !== wanted) return; // another step was asked for meanwhile
      this.lensed = null; // asked again with the next answer of the poll
      put(this.lens, el("p", { class: "note bad", text: error.message }));
    }
  }

  drawTravel() {
    const list = this.stepList;
    const at = list.indexOf(this.board.step);
    attr(this.slider, "max", Math.max(0, list.length - 1));
    if (document.activeElement !== this.slider || !this.pinned()) this.slider.value = at < 0 ? list.length - 1 : at;
    attr(this.slider, "aria-valuetext", `step ${this.board.step}`);
    if (document.activeElement !== this.place) this.place.value = this.board.step ?? "";
    text(this.of, list.length ? `of ${this.steps.last}` : "");
    this.drawMode();
    this.markSpark();
  }

  drawMode() {
    const pinned = this.pinned();
    const word = pinned ? "Pinned" : this.live_ ? "Live" : "Newest";
    text(this.mode, pinned ? `◆ ${word}` : `● ${word}`);
    attr(this.mode, "aria-pressed", String(!pinned));
    attr(this.mode, "title", pinned ? "this step stays; press to follow the newest one" : "follows the newest step; press to stay on this one");
    attr(this.mode, "data-mode", pinned ? "pinned" : "live");
    if (!pinned) this.seen = null;
    else this.seen ??= this.steps.last ?? null;
    const fresh = pinned && known(this.seen) ? this.stepList.filter((s) => s > this.seen).length : 0;
    this.fresh.hidden = !fresh;
    text(this.fresh, `${plural(fresh, "new step")}: go live`);
  }

  drawChips() {
    const show = this.query().show;
    const counts = this.board.counts ?? {};
    const names = Object.keys(SHOW).filter((n) => ALWAYS.includes(n) || counts[n] > 0 || n === show);
    const chips = names.map((name) => {
      this.chip ??= {};
      this.chip[name] ??= el("button", { class: "chip", title: MEANS[name], dataset: { show: name }, on: { click: () => this.filter(name) } });
      text(this.chip[name], `${SHOW[name]} ${counts[name] ?? 0}`);
      attr(this.chip[name], "aria-pressed", String(name === show));
      return this.chip[name];
    });
    arrange(this.chips, [this.chipsName ??= el("span", { class: "small muted", text: "Groups" }), ...chips]);
  }

  drawLegend(nodes) {
    const answers = nodes.flatMap((n) => n.summary.answers);
    const read = answers.some((a) => known(a.excerpt.start)) ? "Outlined: what the reward read (dashed: seen, but not in the form it asks for)." : "This reward does not say what it read.";
    text(this.legend, nodes.length ? `Blue answers become more likely, orange less; the number is the advantage, and bars are drawn to the largest of their group. ● full marks, ◐ part of them, ○ none, ✂ cut off, ∅ no answer found; a strong colour is a large advantage. ${read}` : "");
  }

  drawNothing(board) {
    this.nothing.hidden = board.keys.length > 0;
    if (board.keys.length) return;
    const q = this.query();
    const narrowed = q.show !== "all" || q.search;
    put(this.nothing, el("p", { text: board.say ?? "No groups yet." }),
      el("div", { class: "row" },
        board.elsewhere > 0 && q.scope === "step" ? el("button", { class: "btn", text: `Show ${board.elsewhere} in other steps`, on: { click: () => this.set({ scope: "run" }) } }) : null,
        narrowed ? el("button", { class: "btn", text: "Clear the filter", on: { click: () => this.clear() } }) : null));
  }

  drawPages(board) {
    const { offset } = this.query();
    const left = board.total - offset - board.keys.length;
    const damaged = board.damaged?.lines ? el("span", { class: "small muted", title: board.damaged.where ?? "", text: `${plural(board.damaged.lines, "damaged line")} skipped${board.damaged.where ? ` (${board.damaged.where})` : ""}` }) : null;
    put(this.pages,
      offset > 0 ? el("button", { class: "btn", text: "Previous 50", on: { click: () => this.set({ offset: Math.max(0, offset - 50) || null }, false) } }) : null,
      left > 0 ? el("button", { class: "btn", text: `Next 50 of ${left} more`, on: { click: () => this.set({ offset: offset + 50 }, false) } }) : null, damaged);
  }

  none() {
    put(this.list);
    this.nothing.hidden = false;
    this.cache.clear();
    this.runShown = null;
    put(this.nothing, el("h2", { text: this.app.list.length ? "This run cannot be read." : "Nothing trained yet." }),
      this.app.list.length ? null : el("p", { text: "A run appears here by itself as soon as one starts." }),
      el("div", { class: "row" },
        this.app.server?.replay ? el("button", { class: "btn primary", text: "Watch a recorded run", on: { click: () => this.app.replay() } }) : null,
        this.app.can.train ? el("button", { class: "btn", text: "Train a small model here", on: { click: () => this.app.go({ tab: "train" }) } }) : null));
    this.root.dataset.ready = "1";
  }

  spark(spark) {
    this.sparked = spark;
    const line = (values, name, say) => {
      const most = Math.max(1e-9, ...values.filter(known));
      const least = Math.min(0, ...values.filter(known));
      const points = values.map((v, i) => (known(v) ? `${(118 * i) / Math.max(1, values.length - 1) + 1},${(26 - (24 * (v - least)) / (most - least)).toFixed(1)}` : "")).filter(Boolean).join(" ");
      const ends = `${say(values.find(known))} → ${say(values.findLast(known))}`;
      return el("span", { class: "spark", title: `${name} by step: ${ends}` }, el("span", { class: "small muted" }, `${name} `, el("b", { text: ends })),
        svg("svg", { viewBox: "0 0 120 28", role: "img", "aria-label": `${name}: ${ends}` },
          svg("line", { class: "now", y1: 0, y2: 28, x1: -9, x2: -9 }), svg("polyline", { points, fill: "none" })));
    };
    put(this.sparks, line(spark.reward, "mean reward", (x) => num(x)), line(spark.signal, "groups that teach", pct));
    this.markSpark();
  }

  markSpark() {
    const steps = this.sparked?.steps ?? [];
    const i = steps.findIndex((s) => s >= this.board?.step);
    const x = i < 0 ? -9 : (118 * i) / Math.max(1, steps.length - 1) + 1;
    for (const now of this.sparks.querySelectorAll(".now")) for (const end of ["x1", "x2"]) attr(now, end, x);
  }

  // -- moving ---------------------------------------------------------------------------------------------------------------

  pinned() {
    return this.app.params().step !== undefined;
  }

  pin(step) {
    if (known(step)) this.app.go({ step, offset: null }, { replace: true });
  }

  live() {
    this.stop();
    this.seen = null;
    this.app.go({ step: null, offset: null, open: null }, { replace: true });
  }

  set(changes, reset = true) {
    this.app.go({ ...(reset ? { offset: null } : {}), ...changes }, { replace: true });
  }

  filter(show) {
    this.set({ show: show === "all" ? null : show });
  }

  find(value) {
    this.cache.clear(); // the marks of the former search are in them
    this.set({ search: value.trim() || null });
  }

  clear() {
    this.search.value = "";
    this.set({ show: null, search: null });
  }

  move(by) {
    const list = this.stepList ?? [];
    const at = list.indexOf(this.board?.step);
    if (at < 0 && !list.length) return;
    this.stop();
    this.pin(list[Math.max(0, Math.min(list.length - 1, at + by))]);
  }

  slide(event) {
    this.stop();
    const step = this.stepList?.[Number(event.target.value)];
    if (!known(step)) return;
    text(this.of, `of ${this.steps.last}`);
    this.place.value = step;
    (this.slideSoon ??= debounce((s) => this.pin(s), 60))(step);
  }

  play() {
    if (this.timer) return this.stop();
    const list = this.stepList ?? [];
    let at = list.indexOf(this.board?.step);
    if (at >= list.length - 1) at = -1;
    text(this.playing, "❚❚ Stop");
    const next = () => {
      if (++at >= this.stepList.length) return this.stop();
      this.pin(this.stepList[at]);
      this.timer = setTimeout(next, 1000 / Number(this.speed.value));
    };
    next();
  }

  stop() {
    if (this.timer) this.app.refresh(); // the lens has waited for it
    clearTimeout(this.timer);
    this.timer = null;
    text(this.playing, "▶ Play");
  }

  // -- one group, by hand or by key ---------------------------------------------------------------------------------------

  /** The address names one open answer: key.member. */
  opened() {
    const [, key, i] = /^(.*)\.(\d+)$/.exec(this.app.params().open ?? "") ?? [];
    return key ? { key, i: Number(i) } : null;
  }

  toggle(key, i) {
    const now = this.opened();
    const same = now && now.key === key && now.i === i;
    const step = this.cache.get(key)?.summary.step;
    this.stop();
    if (this.query().scope === "step" && !this.pinned() && !same) this.app.go({ step, open: `${key}.${i}` }, { replace: true });
    else this.app.go({ open: same ? null : `${key}.${i}` }, { replace: true });
    this.reopen();
  }

  reopen() {
    const wanted = this.opened();
    for (const node of this.cache.values()) node.open(wanted && wanted.key === node.summary.key ? wanted.i : null);
  }

  here() {
    const focused = document.activeElement?.closest?.(".group")?.dataset.key;
    return this.cache.get(focused ?? this.opened()?.key);
  }

  hop(by) {
    const heads = [...this.list.querySelectorAll(".group > .head .flip")];
    const at = heads.findIndex((h) => h.closest(".group").contains(document.activeElement));
    heads[Math.max(0, Math.min(heads.length - 1, at + by))]?.focus();
  }

  within(what) {
    const box = this.list.querySelector(".answer.isopen .inside");
    if (!box) return this.app.say("open an answer first");
    if (what === "diff") box.querySelector(".diffwith")?.focus();
    else box.querySelector(`.${what}`)?.click();
  }
}
