// The page: frame, tabs, the one polling loop, keys, address. What a view shows is its own file's business.

import { Lost, Refused } from "./ask.js";
import { attr, el, put, recall, remember, text } from "./dom.js";
import { header } from "./header.js";

const TABS = { groups: "Groups", curves: "Curves", compare: "Compare", chat: "Chat", train: "Train", runs: "Runs" };
const STYLED = ["style", ...Object.keys(TABS)];
const MOST = 250_000; // bytes of one question

/** Fills the element that Gradio has made; `server` holds the panel's functions. */
export async function start(element, server) {
  const root = element.querySelector(".mg");
  theme(root);
  await Promise.all(STYLED.map(stylesheet));
  const page = new Page(root, server, () => element.isConnected);
  await page.open();
}

function stylesheet(name) {
  return new Promise((done) => {
    const href = new URL(`./${name}.css`, import.meta.url).href;
    if (document.querySelector(`link[href="${href}"]`)) return done();
    document.head.append(el("link", { rel: "stylesheet", href, on: { load: done, error: done } }));
  });
}

function theme(root, wanted) {
  const asked = wanted ?? new URLSearchParams(location.search).get("__theme") ?? recall("theme");
  const dark = asked === "dark" || (asked !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = document.documentElement.dataset.mgTheme = dark ? "dark" : "light";
  if (wanted) remember("theme", wanted);
}

class Page {
  constructor(root, server, alive) {
    Object.assign(this, { root, server, alive, gone: new AbortController(), views: {}, list: [], latest: null, can: {}, rev: null, answer: null });
    this.misses = 0;
    this.polls = 0; // how often the server was asked: the browser tests read it
  }

  async open() {
    try {
      await this.runs();
    } catch (error) {
      console.warn(error); // the loop asks again, and tells
    }
    this.frame();
    const { signal } = this.gone;
    addEventListener("hashchange", () => this.route(), { signal });
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh(), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(this.root), { signal });
    await this.route();
  }

  // -- what views may use ---------------------------------------------------------------------------------------------

  async ask(name, query = {}) {
    if (typeof this.server[name] !== "function") throw new Refused(`this panel does not offer “${name}”`, "it may be of another version: start it anew");
    if (new TextEncoder().encode(JSON.stringify(query)).length > MOST) throw new Refused("too long for the panel", "start over, or shorten it");
    let answer;
    try {
      answer = await this.server[name](query);
    } catch (error) {
      throw new Lost(String(error?.message ?? error));
    }
    if (!answer) throw new Lost("no answer"); // Gradio's client warns of a failed request, and returns nothing
    if (answer.error !== undefined) throw new Refused(answer.error, answer.fix);
    return answer;
  }

  params() {
    return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  }

  /** Changes the address, and with it the page. Keys given as null are left out; `keep` false drops all others. */
  async go(changes, { keep = true, replace = false } = {}) {
    const params = { ...(keep ? this.params() : {}), ...changes };
    const kept = Object.entries(params).filter(([, v]) => v !== null && v !== undefined && v !== "");
    const hash = `#${new URLSearchParams(kept)}`;
    if (hash === location.hash) return this.refresh();
    history[replace ? "replaceState" : "pushState"](null, "", hash);
    return this.route();
  }

  run() {
    return this.params().run ?? this.answer?.run ?? this.latest;
  }

  status() {
    return this.answer?.status ?? null;
  }

  async runs() {
    const answer = await this.ask("runs");
    Object.assign(this, { list: answer.runs, latest: answer.latest, can: answer.can, version: answer.version });
    this.listed = Date.now();
    return this.list;
  }

  /** A recorded run begins, and is shown. */
  replay() {
    return this.attempt(async () => {
      const { run } = await this.ask("replay");
      await this.runs();
      await this.go({ tab: "groups", run }, { keep: false });
    });
  }

  /** What `act` gives, or null, and a line for the person, where it fails. */
  async attempt(act) {
    try {
      return await act();
    } catch (error) {
      this.say([error.message, error.fix].filter(Boolean).join(": "));
      return null;
    }
  }

  say(message) {
    clearTimeout(this.saying);
    text(this.toast, message);
    this.toast.hidden = false;
    this.saying = setTimeout(() => (this.toast.hidden = true), 4000);
  }

  confirm(message, action = "Yes") {
    return new Promise((decide) => {
      const close = (value) => () => (box.close(), box.remove(), decide(value));
      const box = el("dialog", { "aria-label": "Please confirm", on: { cancel: close(false) } },
        el("p", { text: message }),
        el("div", { class: "row", style: "margin-top:14px" },
          el("button", { class: "btn bad", text: action, on: { click: close(true) } }),
          el("button", { class: "btn", text: "Cancel", autofocus: true, on: { click: close(false) } })));
      this.root.append(box);
      box.showModal();
    });
  }

  theme() {
    theme(this.root, this.root.dataset.theme === "dark" ? "light" : "dark");
  }

  // -- frame and tabs ---------------------------------------------------------------------------------------------------

  frame() {
    const names = Object.keys(TABS).filter((t) => (t !== "train" || this.can.train) && (t !== "chat" || this.can.chat));
    this.tabs = Object.fromEntries(names.map((name) => [name, el("button", {
      role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, text: TABS[name], dataset: { tab: name },
      on: { click: () => this.go({ tab: name }), keydown: (e) => this.arrow(e, names) },
    })]));
    this.panes = Object.fromEntries(names.map((name) => [name, el("section", {
      class: "view", role: "tabpanel", id: `view-${name}`, "aria-labelledby": `tab-${name}`, hidden: true, dataset: { view: name },
    })]));
    this.head = header(this);
    this.toast = el("div", { class: "toast", role: "status", hidden: true });
    put(this.root, this.head.top(el("nav", { class: "tabs", role: "tablist", "aria-label": "Parts of the panel" }, Object.values(this.tabs))),
      this.head.strip, el("div", { class: "page" }, Object.values(this.panes)), this.toast);
  }

  arrow(event, names) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
    this.go({ tab: next }).then(() => this.tabs[next].focus());
  }

  async route() {
    const asked = this.params().tab;
    const tab = this.tabs[asked] ? asked : "groups";
    if (tab !== this.tab) {
      this.view?.hide?.();
      this.view = null;
      this.tab = tab;
      for (const [name, button] of Object.entries(this.tabs)) {
        attr(button, "aria-selected", String(name === tab));
        attr(button, "tabindex", name === tab ? 0 : -1);
        this.panes[name].hidden = name !== tab;
      }
    }
    try {
      const view = await this.load(tab);
      if (tab !== this.tab) return; // another tab was chosen while this one loaded
      this.view = view;
      await view.show();
    } catch (error) {
      this.broken(tab, error);
    }
    this.refresh();
  }

  /** A view that failed gives way to a line of text, and is made anew when it is opened again. */
  broken(tab, error) {
    console.error(error);
    delete this.views[tab];
    if (tab === this.tab) this.view = null;
    put(this.panes[tab], el("div", { class: "note bad" }, el("p", { text: `This part of the page failed: ${error.message}` }), error.fix ? el("p", { text: error.fix }) : null,
      el("button", { class: "btn", text: "Try again", on: { click: () => this.route() } })));
  }

  async load(tab) {
    if (!this.views[tab]) {
      const { mount } = await import(`./${tab}.js`);
      this.views[tab] ??= mount(this.panes[tab], this);
    }
    return this.views[tab];
  }

  // -- the loop -----------------------------------------------------------------------------------------------------------

  /** Ask now. While an answer is under way, ask once more after it. */
  refresh() {
    clearTimeout(this.timer);
    if (this.asking) this.again = true;
    else this.loop();
  }

  async loop() {
    if (!this.alive()) return this.gone.abort();
    if (document.hidden || this.root.offsetParent === null) {
      this.timer = document.hidden ? null : setTimeout(() => this.loop(), 1000); // a hidden page is woken by its event
      return;
    }
    this.asking = true;
    this.again = false;
    let wait;
    try {
      wait = await this.poll();
      this.misses = 0;
    } catch (error) {
      wait = Math.min(8000, 1000 * 2 ** this.misses++);
      if (error instanceof Lost || error instanceof Refused) this.head.trouble(error, wait);
      else { // a mistake of the page itself: told, and the next answer may be drawn all the same
        console.error(error);
        this.head.trouble(new Refused(`this page failed: ${error.message}`, "reload it"), wait);
      }
      if (!(error instanceof Lost)) this.rev = null; // what was drawn is not what the server holds
      if (error instanceof Refused) this.view?.tick?.(null);
    } finally {
      this.asking = false;
      this.root.dataset.polls = String(++this.polls);
      this.root.dataset.ready = "1";
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.loop(), this.again ? 0 : wait);
  }

  async poll() {
    const wanted = this.params().run;
    if (!this.list.length || Date.now() - this.listed > 15000) await this.runs();
    if (!wanted && !this.latest) {
      this.answer = this.rev = null;
      this.head.draw(null);
      this.view?.tick?.(null);
      return 3000;
    }
    const view = this.view;
    const board = view?.query?.() ?? null;
    const wish = () => JSON.stringify([this.params().run, { ...this.view?.query?.(), known: 0 }]);
    const before = wish();
    const answer = await this.ask("poll", { run: wanted ?? "latest", rev: this.rev, board });
    if (view !== this.view || before !== wish()) return 0; // the person has moved on
    if (!wanted && this.answer && answer.run !== this.answer.run && this.newer(this.answer.run, answer.run)) return 0;
    this.rev = answer.rev;
    if (answer.run !== this.answer?.run && !this.list.some((r) => r.id === answer.run)) await this.runs();
    if (!answer.spark && this.answer?.run === answer.run) answer.spark = this.answer.spark;
    this.answer = answer;
    this.head.draw(answer);
    view?.tick?.(answer);
    const slow = matchMedia("(max-width: 640px)").matches || (view && !view.query) ? 2 : 1;
    return answer.next_ms * slow;
  }

  /** A newer run has begun: who only watches goes along, who reads or talks stays; true for the latter. */
  newer(before, now) {
    const { step, open } = this.params();
    if (step === undefined && open === undefined && this.tab !== "chat") {
      this.say(`now showing ${now}, which has just begun`);
      return false;
    }
    this.say(`a newer run has begun: ${now}`);
    this.go({ run: before }, { replace: true });
    return true;
  }

  // -- keys -----------------------------------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.root.querySelector("dialog[open]")) return;
    const where = event.target;
    if (where.closest?.("input, select, textarea, [contenteditable]")) {
      if (event.key === "Escape") where.blur();
      return;
    }
    if (recall("keys") === "off" && event.key !== "?") return;
    const names = Object.keys(this.tabs);
    const act = event.key === "?" ? () => this.help()
      : /^[1-6]$/.test(event.key) ? names[event.key - 1] && (() => this.go({ tab: names[event.key - 1] }))
      : this.view?.keys?.[event.key];
    if (!act) return;
    if (event.key === "Enter" && where.closest?.("button, a, summary")) return; // it presses what has the focus
    event.preventDefault();
    act();
  }

  help() {
    const keys = {
      [`1 … ${Object.keys(this.tabs).length}`]: "the tabs", "j k": "next, previous group", Enter: "open or close the group", "← →": "one step back, forth", l: "live: follow the newest step",
      "/": "search", z: "only groups without signal", t: "token numbers of the answer", d: "compare two answers", s: "star the group", c: "copy the answer", "?": "this list",
    };
    const off = recall("keys") === "off";
    const close = () => (box.close(), box.remove());
    const box = el("dialog", { "aria-label": "Keys", on: { cancel: close } },
      el("h2", { text: "Keys" }),
      el("table", { class: "table" }, Object.entries(keys).map(([key, what]) =>
        el("tr", null, el("td", null, key.split(" ").map((k) => [el("kbd", { text: k }), " "])), el("td", { text: what })))),
      el("p", { class: "small muted", style: "margin:10px 0", text: "They rest while you type. No key stops a run." }),
      el("div", { class: "row" },
        el("label", { class: "row" }, el("input", { type: "checkbox", checked: !off, on: { change: (e) => remember("keys", e.target.checked ? "on" : "off") } }), "keys are on"),
        el("button", { class: "btn", text: "Close", on: { click: close } })));
    this.root.append(box);
    box.showModal();
  }
}
