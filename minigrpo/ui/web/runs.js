// Every run of the folder as one table: sorted, searched, opened, resumed, and two of them compared.

import { differences } from "./differences.js";
import { attr, bytes, copy, debounce, duration, el, known, num, pct, plural, put, text, visible } from "./dom.js";

const WORDS = { starting: "starting", running: "running", paused: "paused", stopping: "stopping", stopped: "stopped", finished: "finished", failed: "failed", crashed: "crashed", broken: "unreadable" };
const COLUMNS = [
  { key: "name", label: "Run", value: (r) => r.name },
  { key: "state", label: "State", value: (r) => WORDS[r.state] ?? r.state },
  { key: "model", label: "Model", value: (r) => r.model },
  { key: "task", label: "Task", value: (r) => r.task },
  { key: "best", label: "Best", title: "share of held-out questions answered right, at its best", value: (r) => r.best, shown: (r) => pct(r.best) },
  { key: "reward", label: "Reward", title: "mean reward of the last step", value: (r) => r.reward, shown: (r) => num(r.reward) },
  { key: "signal", label: "Signal", title: "share of the last step's groups that taught something", value: (r) => r.signal, shown: (r) => pct(r.signal) },
  { key: "step", label: "Step", value: (r) => r.step, shown: (r) => (known(r.step) ? `${r.step}${known(r.max_steps) && r.max_steps ? ` of ${r.max_steps}` : ""}` : "–") },
  { key: "created", label: "Created", value: (r) => r.created, shown: (r) => date(r.created) },
  { key: "seconds", label: "Duration", value: (r) => r.seconds, shown: (r) => duration(r.seconds) },
  { key: "size", label: "Size", value: (r) => r.size, shown: (r) => bytes(r.size) },
];
const TEXTS = ["name", "state", "model", "task"];
const PAGE = 200; // rows at once
const RESUMABLE = ["stopped", "crashed", "failed"];

export function mount(root, app) {
  return new Runs(root, app);
}

class Runs {
  constructor(root, app) {
    Object.assign(this, { root, app, rows: [], sort: "created", down: true, page: 0, picked: [], needle: "" });
    this.keys = { "/": () => this.search.focus() };
    this.frame();
  }

  frame() {
    this.search = el("input", { type: "search", placeholder: "search names, models, tasks", "aria-label": "Search runs", maxlength: 200, on: { input: debounce((e) => { this.needle = e.target.value.trim().toLowerCase(); this.page = 0; this.draw(); }, 150) } });
    this.count = el("span", { class: "muted small", role: "status" });
    this.compare = el("button", { class: "btn", id: "compare-curves", disabled: true, text: "Compare curves", on: { click: () => this.overlay() } });
    this.configs = el("button", { class: "btn", id: "compare-configs", disabled: true, text: "Compare configs", on: { click: () => this.diff() } });
    this.hint = el("span", { class: "muted small", text: "tick two runs to compare them" });
    this.heads = COLUMNS.map((c) => el("th", { scope: "col", class: TEXTS.includes(c.key) ? "" : "num", dataset: { key: c.key } },
      el("button", { class: "sorter", type: "button", title: c.title, text: c.label, on: { click: () => this.order(c.key) } })));
    this.list = el("tbody");
    this.pages = el("div", { class: "row" });
    this.table = el("table", { class: "table runtable" },
      el("caption", { class: "visually-hidden", text: "Runs" }),
      el("thead", null, el("tr", null, el("th", { scope: "col" }, el("span", { class: "visually-hidden", text: "compare" })), this.heads, el("th", { scope: "col" }, el("span", { class: "visually-hidden", text: "actions" })))),
      this.list);
    this.beside = el("div", { class: "card", id: "configs", hidden: true });
    this.body = el("div", { class: "stack" }, el("div", { class: "row" }, el("span", { class: "searchbox" }, this.search), this.count, el("span", { class: "grow" }), this.hint, this.compare, this.configs),
      this.beside, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Runs" }, this.table), this.pages);
    this.nothing = el("div", { class: "empty", hidden: true });
    this.root.classList.add("runs");
    put(this.root, this.body, this.nothing);
  }

  // -- what main.js asks ----------------------------------------------------------------------------------------------------

  show() {
    return this.load();
  }

  hide() {}

  tick() {
    if (Date.now() - (this.loaded ?? 0) > 5000) this.load();
  }

  async load() {
    this.loaded = Date.now();
    let answer;
    try {
      answer = await this.app.ask("runs");
    } catch (error) {
      this.app.say(error.message);
      return;
    }
    this.folder = answer.root;
    this.picked = this.picked.filter((id) => answer.runs.some((r) => r.id === id));
    const key = JSON.stringify(answer.runs);
    if (key !== this.drawn) {
      this.rows = answer.runs;
      this.draw();
    }
    this.drawn = key;
    this.root.dataset.ready = "1";
  }

  // -- drawing ------------------------------------------------------------------------------------------------------------------

  draw() {
    this.body.hidden = !this.rows.length;
    this.nothing.hidden = this.rows.length > 0;
    if (!this.rows.length) return this.empty();
    const found = this.rows.filter((r) => !this.needle || [r.name, r.state, r.model, r.task, r.recipe].some((v) => v?.toLowerCase().includes(this.needle)));
    const column = COLUMNS.find((c) => c.key === this.sort);
    const sorted = [...found].sort((a, b) => compared(column.value(a), column.value(b), this.down));
    this.page = Math.min(this.page, Math.max(0, Math.ceil(sorted.length / PAGE) - 1));
    const shown = sorted.slice(this.page * PAGE, (this.page + 1) * PAGE);
    for (const head of this.heads) attr(head, "aria-sort", head.dataset.key === this.sort ? (this.down ? "descending" : "ascending") : "none");
    this.keepFocus(() => put(this.list, shown.map((r) => this.row(r))));
    text(this.count, found.length === this.rows.length ? plural(this.rows.length, "run") : found.length ? `${found.length} of ${plural(this.rows.length, "run")}` : "No run matches.");
    this.drawPages(sorted.length);
    this.drawPicked();
  }

  /** The focus stays on the same button of the same run, though the rows are made anew. */
  keepFocus(change) {
    const at = this.list.contains(document.activeElement) ? document.activeElement : null;
    const [run, act] = [at?.closest("tr")?.dataset.run, at?.dataset.act];
    change();
    if (act) [...this.list.rows].find((row) => row.dataset.run === run)?.querySelector(`[data-act="${act}"]`)?.focus();
  }

  row(r) {
    const act = (name, label, title, f) => el("button", { class: "btn quiet", dataset: { act: name }, text: label, title, "aria-label": `${label}: ${r.name}`, on: { click: f } });
    const cells = COLUMNS.map((c) => {
      const value = c.shown ? c.shown(r) : visible(c.value(r) ?? "–");
      const inside = c.key === "name" ? [r.starred ? el("span", { class: "star", title: plural(Number(r.starred), "starred group"), role: "img", "aria-label": "starred", text: "★ " }) : null, el("button", { class: "open", dataset: { act: "open" }, title: "show its groups", on: { click: () => this.open(r) } }, el("bdi", { text: value }))]
        : c.key === "state" ? el("span", { class: "pill", dataset: { state: r.state } }, el("span", { class: "dot", "aria-hidden": "true" }), r.kind === "trl" ? "TRL" : value)
        : el("bdi", { text: value });
      return el("td", { class: TEXTS.includes(c.key) ? `words ${c.key}` : "num", dataset: { label: c.label } }, inside);
    });
    return el("tr", { dataset: { run: r.id } },
      el("td", { class: "pick" }, el("input", { type: "checkbox", dataset: { act: "pick" }, checked: this.picked.includes(r.id), "aria-label": `Compare ${r.name}`, on: { change: (e) => this.pick(r.id, e.target.checked) } })),
      cells,
      el("td", { class: "acts" }, el("span", { class: "row" },
        r.kind === "run" && this.app.can.train && RESUMABLE.includes(r.state) ? act("resume", "Resume", "goes on from its last checkpoint", () => this.resume(r)) : null,
        r.kind === "run" && this.app.can.train ? act("again", "Duplicate", "takes its settings into the Train tab", () => this.app.go({ tab: "train", from: r.id })) : null,
        act("path", "Copy path", this.path(r), () => this.copyPath(r)))));
  }

  empty() {
    const buttons = [
      this.app.server?.replay ? el("button", { class: "btn primary", text: "Watch a recorded run", on: { click: () => this.app.replay() } }) : null,
      this.app.can.train ? el("button", { class: "btn", text: "Start the smoke test", on: { click: () => this.app.go({ tab: "train" }) } }) : null,
    ];
    put(this.nothing, el("h2", { text: "Nothing trained yet." }),
      el("p", { text: this.folder ? `There is no run in ${this.folder}. A recorded one needs no GPU and takes seconds; the smoke test trains a small model here in about a minute.` : "" }), el("div", { class: "row" }, buttons));
  }

  drawPages(total) {
    const last = Math.ceil(total / PAGE) - 1;
    if (last < 1) return put(this.pages);
    const turn = (label, to, able) => el("button", { class: "btn", text: label, disabled: !able, on: { click: () => { this.page = to; this.draw(); this.table.scrollIntoView(); } } });
    put(this.pages, turn("◀ Back", this.page - 1, this.page > 0), `page ${this.page + 1} of ${last + 1}`, turn("Next ▶", this.page + 1, this.page < last));
  }

  drawPicked() {
    const two = this.picked.length === 2;
    this.compare.disabled = this.configs.disabled = !two;
    text(this.hint, two ? "" : this.picked.length ? "tick one more" : "tick two runs to compare them");
    if (!two) this.beside.hidden = true;
  }

  // -- hands ----------------------------------------------------------------------------------------------------------------------

  order(key) {
    this.down = this.sort === key ? !this.down : !TEXTS.includes(key);
    this.sort = key;
    this.draw();
  }

  /** Two at most: the one that was ticked first gives way. */
  pick(id, on) {
    this.picked = [...this.picked.filter((p) => p !== id), ...(on ? [id] : [])].slice(-2);
    for (const box of this.list.querySelectorAll('[data-act="pick"]')) box.checked = this.picked.includes(box.closest("tr").dataset.run);
    this.beside.hidden = true;
    this.drawPicked();
  }

  open(r) {
    this.app.go({ tab: "groups", run: r.id }, { keep: false });
  }

  overlay() {
    this.app.go({ tab: "curves", run: this.picked[0], with: this.picked[1] }, { keep: false });
  }

  async diff() {
    const inside = el("div");
    const names = this.picked.map((id) => this.rows.find((r) => r.id === id)?.name ?? id);
    put(this.beside, el("div", { class: "row" }, el("h2", { text: "Configs side by side" }), el("span", { class: "grow" }), el("button", { class: "btn quiet", text: "Close", on: { click: () => (this.beside.hidden = true) } })), inside);
    await differences(inside, this.app, this.picked, names);
    this.beside.hidden = false;
  }

  resume(r) {
    return this.app.attempt(async () => {
      const { run } = await this.app.ask("go_on", { run: r.id });
      this.app.say(`${run} goes on from its last checkpoint`);
      await this.load();
    });
  }

  path(r) {
    return r.path ?? (this.rows.length === 1 && this.folder?.endsWith(r.id) ? this.folder : `${this.folder}/${r.id}`);
  }

  async copyPath(r) {
    this.app.say((await copy(this.path(r))) ? `copied ${this.path(r)}` : this.path(r));
  }
}

/** Unknown values last, whichever way the rest goes. */
function compared(a, b, down) {
  const [none, other] = [a === null || a === undefined, b === null || b === undefined];
  if (none || other) return none - other;
  const way = typeof a === "string" ? a.localeCompare(String(b), undefined, { numeric: true }) : a - b;
  return down ? -way : way;
}

function date(seconds) {
  if (!known(seconds) || seconds <= 0) return "–";
  const [then, now] = [new Date(1000 * seconds), new Date()];
  const day = { month: "short", day: "numeric", ...(then.getFullYear() === now.getFullYear() ? { hour: "2-digit", minute: "2-digit" } : { year: "numeric" }) };
  return then.toLocaleString(undefined, day);
}
