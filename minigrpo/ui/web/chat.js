// Chat: base and adapter answer the same question side by side; the talk lives in this page, the model in the panel.

import { Lost } from "./ask.js";
import { attr, el, plural, put, recall, remember, save, text, visible } from "./dom.js";
import { Turn } from "./turn.js";

const SETTINGS = { temperature: 0.7, seed: 7, max_tokens: 256 };
const BOUNDS = { temperature: [0, 5], seed: [0, 2 ** 53 - 1], max_tokens: [1, 16384] };
const PAUSE = { queued: 400, writing: 150 }; // ms between two looks at an answer
const AGAIN = 5000, SLOWLY = 30000; // ms after which an adapter that was not there, or was, is looked for again

export function mount(root, app) {
  return new Chat(root, app);
}

class Chat {
  constructor(root, app) {
    Object.assign(this, { root, app, turns: [], waiting: [], now: null, fresh: true, model: null, looked: 0, runShown: null });
    this.keys = { Escape: () => this.stop(), "/": () => this.input.focus() };
    this.frame();
  }

  frame() {
    const field = (label, input, title) => el("label", { class: "field", title }, el("span", { class: "label", text: label }), input);
    const number = (name, step) => (this[name] = el("input", { type: "number", name, min: BOUNDS[name][0], max: BOUNDS[name][1], step, value: this.kept()[name], on: { change: () => this.keep() } }));
    this.which = el("select", { name: "adapter", on: { change: () => this.choose() } });
    this.loader = el("button", { class: "btn", text: "Load", on: { click: () => this.load() } });
    this.away = el("button", { class: "btn quiet", text: "Unload", title: "gives its memory back", hidden: true, on: { click: () => this.unload() } });
    this.state = el("span", { class: "chat-state muted", role: "status" });
    this.blind = el("input", { type: "checkbox", name: "blind" });
    this.score = el("span", { class: "small muted", hidden: true });
    this.banner = el("div", { class: "note warn", role: "alert", hidden: true });
    this.offers = el("div", { class: "chat-offers", role: "group", "aria-label": "Questions of the run" });
    this.log = el("ol", { class: "chat-log", "aria-label": "Talk" });
    this.heard = el("div", { class: "visually-hidden", "aria-live": "polite" });
    this.input = el("textarea", { name: "question", rows: 2, placeholder: "Ask both. Enter sends, Shift+Enter makes a new line.", "aria-label": "Question to both", maxlength: 50000, on: { keydown: (e) => this.typed(e) } });
    this.gold = el("input", { type: "text", name: "gold", placeholder: "if you know it", maxlength: 2000, on: { keydown: (e) => this.typed(e) } });
    this.sender = el("button", { class: "btn primary", text: "Send", on: { click: () => this.send() } });
    this.stopper = el("button", { class: "btn", text: "Stop", title: "Esc", disabled: true, on: { click: () => this.stop() } });
    const over = el("button", { class: "btn quiet", text: "Start over", title: "both forget what was said; it stays on the page", on: { click: () => this.over() } });
    const out = el("button", { class: "btn quiet", text: "Export", title: "the talk as a file of JSON lines", on: { click: () => this.export() } });
    const clear = el("button", { class: "btn quiet", text: "Clear", title: "takes the talk off the page", on: { click: () => this.clear() } });
    put(this.root,
      el("div", { class: "card chat-bar" },
        el("div", { class: "row chat-which" }, field("Adapter", this.which), this.loader, this.away, this.state),
        el("div", { class: "row chat-settings" },
          field("Temperature", number("temperature", 0.1), "0: always the likeliest word"), field("Seed", number("seed", 1), "same seed, same dice for both"),
          field("Max tokens", number("max_tokens", 1), "length of an answer"),
          el("button", { class: "btn", text: "Next seed", title: "other dice for the next answers", on: { click: () => this.reseed() } }),
          el("label", { class: "row", title: "columns A and B, in an order you are not told until you have voted" }, this.blind, "Blind"), this.score)),
      this.banner, this.offers, this.log, this.heard,
      el("div", { class: "chat-compose" },
        this.input,
        el("div", { class: "row" }, this.sender, this.stopper, el("label", { class: "row chat-gold small" }, "Right answer", this.gold), el("span", { class: "grow" }), over, out, clear)));
    this.root.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || !this.now) return;
      e.stopPropagation();
      this.stop();
    });
  }

  // -- what main.js asks ------------------------------------------------------------------------------------------------

  async show() {
    const run = this.app.run();
    if (run !== this.runShown) await this.moved(run);
    else await this.look();
    await this.taken();
    this.root.dataset.ready = "1";
  }

  hide() {}

  tick() {
    const run = this.app.run();
    if (run && run !== this.runShown) this.moved(run);
    else if (Date.now() - this.looked > (this.model?.state === "ready" ? SLOWLY : AGAIN)) this.look();
  }

  async moved(run) {
    if (this.runShown && this.turns.length) this.over(`Another run: ${run}.`);
    Object.assign(this, { runShown: run, model: null });
    put(this.which);
    put(this.offers);
    if (!run) return this.drawModel();
    await Promise.all([this.look(), this.offer()]);
  }

  /** "To chat" on a card: the question of that group, ready to be sent. */
  async taken() {
    const key = this.app.params().ask;
    if (!key) return;
    this.app.go({ ask: null }, { replace: true });
    const group = await this.tried("group", { run: this.runShown, key });
    const asked = group?.prompt?.findLastIndex((m) => m.role === "user") ?? -1;
    if (asked < 0) return;
    this.over();
    this.put({ question: group.prompt[asked].content, gold: group.full_gold ?? group.gold, before: group.prompt.slice(0, asked) });
    this.input.focus();
  }

  // -- the model --------------------------------------------------------------------------------------------------------

  step() {
    return this.which.value === "" ? null : Number(this.which.value);
  }

  name(step = this.step()) {
    return step === null ? "final adapter" : `step ${step}`;
  }

  async look() {
    return this.opened({ look: true });
  }

  async opened(more = {}) {
    this.looked = Date.now();
    const run = this.runShown;
    if (!run) return this.drawModel();
    const answer = await this.tried("chat_open", { run, step: this.step(), ...more }, (message, fix) => ({ state: "failed", say: message, fix, steps: [], final: false, training: [] }));
    if (run !== this.runShown || !answer) return null;
    const before = this.which.options.length;
    this.picks(answer);
    if (!before && this.step() !== null) return this.opened(more); // no final adapter: the newest checkpoint is what is looked at
    this.model = answer;
    this.drawModel();
    clearTimeout(this.watch);
    if (answer.state === "loading") this.watch = setTimeout(() => this.look(), 500);
    return answer;
  }

  picks({ steps = [], final }) {
    const wanted = [...(final ? [["", "final adapter"]] : []), ...steps.toReversed().map((s) => [String(s), `step ${s}`])];
    if (wanted.length === this.which.options.length && wanted.every(([v], i) => this.which.options[i].value === v)) return;
    const before = this.which.options.length ? this.which.value : null;
    put(this.which, wanted.map(([value, label]) => el("option", { value, text: label })));
    if (before !== null && wanted.some(([v]) => v === before)) this.which.value = before;
    attr(this.which, "disabled", wanted.length ? null : "");
  }

  drawModel() {
    const m = this.model ?? { state: "none", say: "" };
    const words = {
      none: m.say ? `Not loaded: ${m.say}.` : "Not loaded yet. Sending a question loads it too.",
      loading: m.say ? `${capital(m.say)} …` : "Loading …", ready: `Ready: ${m.say}`, failed: `${capital(m.say ?? "")}. ${m.fix ?? ""}`,
    };
    text(this.state, this.runShown ? words[m.state] : "No run yet: train one, and talk to it here.");
    this.state.dataset.state = m.state;
    this.loader.hidden = m.state === "ready" || m.state === "loading";
    attr(this.loader, "disabled", this.which.options.length ? null : "");
    this.away.hidden = !["ready", "loading"].includes(m.state);
    this.banner.hidden = !m.warning;
    text(this.banner, m.warning ?? "");
  }

  async allowed() {
    const training = this.model?.training ?? [];
    if (!training.length || this.bold || this.model?.state === "ready") return true;
    this.bold = await this.app.confirm(`Training goes on (${training.join(", ")}). A second model takes memory beside it and slows it down; you can pause the run first. Load it now?`, "Load");
    return this.bold;
  }

  async load() {
    if (await this.allowed()) await this.opened();
  }

  async unload() {
    await this.tried("chat_close", {});
    await this.look();
  }

  async choose() {
    const loaded = this.model?.state === "ready" || this.model?.state === "loading";
    this.over(`From here on: ${this.name()}.`);
    await (loaded ? this.opened() : this.look());
  }

  // -- settings ---------------------------------------------------------------------------------------------------------

  kept() {
    try {
      return { ...SETTINGS, ...JSON.parse(recall("chat", "{}")) };
    } catch {
      return SETTINGS;
    }
  }

  settings() {
    const read = (name) => {
      const value = Number(this[name].value);
      const [low, high] = BOUNDS[name];
      const whole = name === "temperature" ? value : Math.round(value);
      return this[name].value !== "" && Number.isFinite(whole) ? Math.min(high, Math.max(low, whole)) : SETTINGS[name];
    };
    return { temperature: read("temperature"), seed: read("seed"), max_tokens: read("max_tokens") };
  }

  keep() {
    const settings = this.settings();
    for (const [name, value] of Object.entries(settings)) this[name].value = value;
    remember("chat", JSON.stringify(settings));
  }

  reseed() {
    this.seed.value = this.settings().seed + 1;
    this.keep();
  }

  // -- questions --------------------------------------------------------------------------------------------------------

  async offer() {
    const run = this.runShown;
    const answer = await this.tried("questions", { run, n: 8 }, () => ({ rows: [] }));
    if (run !== this.runShown) return;
    put(this.offers, answer.rows.length ? el("span", { class: "small muted", text: "Questions of this run:" }) : null,
      answer.rows.map((row) => el("button", { class: "chip", title: "asks this in a new talk", on: { click: () => this.send(row) } },
        el("bdi", { class: "chat-offer", text: visible(row.question) }), el("span", { class: "muted" }, "right: ", el("bdi", { text: shown(row.gold) })))));
  }

  put({ question, gold, before }) {
    this.input.value = question;
    this.gold.value = gold === null || gold === undefined ? "" : shown(gold);
    this.prepared = { question, gold, shown: this.gold.value, before: before ?? [] };
  }

  typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.send();
  }

  /** Puts a question to both; `offered` is one of the run's own, which begins a new talk. */
  async send(offered = null) {
    const prepared = this.prepared?.question === this.input.value ? this.prepared : null;
    const question = (offered?.question ?? this.input.value).toWellFormed();
    if (!question.trim() || !this.runShown) return this.input.focus();
    if (!(await this.allowed())) return;
    const typed = prepared && prepared.shown === this.gold.value ? prepared.gold : this.gold.value.trim() || null;
    if (offered) this.over();
    const turn = new Turn(this, { question, gold: offered ? offered.gold : typed, before: offered?.before ?? prepared?.before ?? [] }, {
      run: this.runShown, step: this.step(), name: this.name(), ...this.settings(), blind: this.blind.checked, first: this.fresh,
    });
    if (!offered) {
      this.input.value = this.gold.value = "";
      this.prepared = null;
    }
    this.fresh = false;
    this.turns.push(turn);
    this.log.append(turn.node);
    turn.node.scrollIntoView({ block: "nearest" });
    this.waiting.push(turn);
    this.work();
  }

  /** What began a talk begins a new one; what was asked later is asked in the talk as it is now. */
  again(turn) {
    if (turn.first) return this.send(turn.asked);
    this.put({ ...turn.asked, before: [] });
    return this.send();
  }

  /** One question after the other: what is asked next depends on what was answered. */
  async work() {
    if (this.now) return;
    try {
      while ((this.now = this.waiting.shift())) {
        this.buttons();
        await this.written(this.now);
        this.now.finished();
        this.announce(this.now);
      }
    } catch (error) { // a mistake of the page itself
      this.now.update({ state: "failed", say: `this page failed: ${error.message}` });
      this.stop();
      throw error;
    } finally {
      this.now = null;
      this.buttons();
    }
    this.look();
  }

  async written(turn) {
    const q = turn.query(this.talks(turn));
    turn.update({ state: "queued", say: "sending" });
    const asked = await this.tried("chat_say", q, (message, fix) => ({ failed: `${message}. ${fix}` }));
    if (!asked?.id) return turn.update({ state: "failed", say: asked?.failed ?? "the panel cannot be reached; ask again when it is back" });
    turn.id = asked.id;
    if (turn.stopping) this.tried("chat_stop", { id: turn.id });
    for (let missed = 0; ; ) {
      try {
        turn.update(await this.app.ask("chat_poll", { id: turn.id }));
        missed = 0;
      } catch (error) {
        if (!lost(error)) return turn.update({ state: "failed", say: `${error.message}: ${error.fix ?? ""}` });
        missed++;
        turn.update({ say: "the panel cannot be reached; trying again" });
      }
      this.follow(turn);
      if (turn.over()) return null;
      await new Promise((done) => setTimeout(done, missed ? Math.min(8000, 500 * 2 ** missed) : PAUSE[turn.state] ?? 400));
    }
  }

  /** What each side has heard and said in this talk, before the turn and with its question. */
  talks(turn) {
    const start = this.turns.findLastIndex((t, i) => t.first && i <= this.turns.indexOf(turn));
    const past = this.turns.slice(start, this.turns.indexOf(turn)).filter((t) => t.heard());
    const told = (side) => [...past, turn].flatMap((t) => [...t.asked.before, { role: "user", content: t.asked.question }, ...(t === turn ? [] : [{ role: "assistant", content: t.sides[side].text }])]);
    return { base: told("base"), adapter: told("adapter") };
  }

  stop() {
    for (const turn of this.waiting.splice(0)) turn.update({ state: "stopped", say: "" });
    if (!this.now) return;
    this.now.stopping = true;
    if (this.now.id) this.tried("chat_stop", { id: this.now.id });
  }

  // -- the talk ---------------------------------------------------------------------------------------------------------

  /** A new talk: what stands above stays on the page, and is forgotten. */
  over(why = "") {
    this.stop();
    if (!this.fresh && this.turns.length) this.log.append(el("li", { class: "chat-divider small muted", text: `${why} A new talk: both forget what stands above.`.trim() }));
    this.fresh = true;
  }

  async clear() {
    if (this.turns.length && !(await this.app.confirm(`Take ${plural(this.turns.length, "question")} and the answers off the page? Export keeps them.`, "Clear"))) return;
    this.stop();
    Object.assign(this, { turns: [], fresh: true });
    put(this.log);
    this.input.focus();
  }

  export() {
    if (!this.turns.length) return this.app.say("There is nothing to export yet.");
    save(`talk-${this.runShown}.jsonl`, `${this.turns.map((t) => JSON.stringify(t.line())).join("\n")}\n`, "application/x-ndjson");
  }

  async voted(turn) {
    const answer = await this.tried("vote", turn.ballot());
    if (!answer) return;
    const { base, adapter, tie } = answer.tally;
    text(this.score, `blind votes: adapter ${adapter}, base ${base}, tie ${tie}`);
    this.score.hidden = false;
  }

  buttons() {
    attr(this.stopper, "disabled", this.now ? null : "");
    this.root.dataset.writing = this.now ? "1" : "";
  }

  /** Stays at the end of what is written, for who is there already. */
  follow(turn) {
    const room = document.documentElement.scrollHeight - innerHeight - scrollY;
    if (turn === this.turns.at(-1) && room < 60) scrollTo({ top: document.documentElement.scrollHeight });
  }

  announce(turn) {
    text(this.heard, turn.spoken());
  }

  /** An answer of the server, or null (and a line for the person) where there is none. */
  async tried(name, q, otherwise = null) {
    try {
      return await this.app.ask(name, q);
    } catch (error) {
      if (!lost(error) && error.fix === undefined) throw error;
      const [message, fix] = lost(error) ? ["the panel cannot be reached", "training is not affected"] : [error.message, error.fix];
      if (otherwise) return otherwise(message, fix);
      this.app.say(`${capital(message)}. ${fix}`);
      return null;
    }
  }
}

const lost = (error) => error instanceof Lost;
export const shown = (gold) => visible(typeof gold === "string" ? gold : JSON.stringify(gold));
const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);
