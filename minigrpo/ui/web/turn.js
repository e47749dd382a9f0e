// One question and its two answers.

import { el, num, put, text, visible } from "./dom.js";

const SIDES = ["base", "adapter"];
const FINISH = { stop: ["stop", "it ended by itself"], length: ["cut off", "it met the limit of tokens"], stopped: ["stopped", "you stopped it"] };
const MARKS = { right: "✓ right", wrong: "✗ wrong", partly: "◐ partly", unreadable: "∅ no answer read", failed: "⚠ reward failed", "not run": "– not run" };

export class Turn {
  /** `asked`: question, gold, before; `how`: run, step, name, temperature, seed, max_tokens, blind, first (of its talk). */
  constructor(chat, asked, how) {
    Object.assign(this, { chat, asked, how, first: how.first, state: "waiting", say: "", choice: null, t: Date.now() / 1000, verdicts: {} });
    this.sides = Object.fromEntries(SIDES.map((s) => [s, { text: "", n_tok: 0, finish: null, tok_s: null }]));
    this.order = how.blind && Math.random() < 0.5 ? ["adapter", "base"] : SIDES;
    this.columns = Object.fromEntries(this.order.map((side, i) => [side, this.column(i)]));
    this.status = el("p", { class: "small muted chat-say" });
    this.poll = el("div", { class: "row chat-vote", hidden: true });
    const again = el("button", { class: "btn quiet", text: "Ask again", title: "with the settings above", on: { click: () => chat.again(this) } });
    this.node = el("li", { class: "chat-turn", dataset: { state: this.state } },
      el("div", { class: "chat-question" }, el("span", { class: "tag small muted", text: "You" }), el("bdi", { class: "chat-text", text: visible(asked.question) }),
        asked.gold === null || asked.gold === undefined ? null : el("span", { class: "small" }, el("span", { class: "muted", text: "right answer " }), el("bdi", { class: "mono", text: visible(typeof asked.gold === "string" ? asked.gold : JSON.stringify(asked.gold)) })), again),
      el("div", { class: "chat-sides" }, this.order.map((s) => this.columns[s].node)), this.status, this.poll);
    this.reveal();
    this.draw();
  }

  column(i) {
    const title = el("h3", { class: "chat-name" });
    const body = el("div", { class: "chat-text", dir: "auto" });
    const facts = el("p", { class: "small muted chat-facts" });
    const verdict = el("p", { class: "small chat-verdict" });
    const node = el("article", { class: "chat-side", dataset: { column: "ab"[i] } }, title, body, verdict, facts);
    return { title, body, facts, verdict, node, letter: "AB"[i] };
  }

  hidden() {
    return this.how.blind && !this.choice;
  }

  reveal() {
    for (const side of SIDES) {
      const { node, title, letter } = this.columns[side];
      const name = side === "base" ? "Base" : `Adapter, ${this.how.name}`;
      text(title, this.hidden() ? `Answer ${letter}` : this.how.blind ? `${letter}: ${name}` : name);
      if (!this.hidden()) node.dataset.side = side;
    }
  }

  query(talks) {
    const { run, step, temperature, seed, max_tokens } = this.how;
    return { run, step, talks, temperature, seed, max_tokens };
  }

  /** A blind turn shows nothing before both are done: base is written first. */
  held() {
    return this.hidden() && !this.over();
  }

  over() {
    return ["done", "stopped", "failed"].includes(this.state);
  }

  /** Whether it is part of what both remember. */
  heard() {
    return SIDES.some((s) => this.sides[s].text);
  }

  update(answer) {
    this.state = answer.state ?? this.state;
    this.say = answer.say ?? this.say;
    for (const side of SIDES) if (answer[side]) this.sides[side] = answer[side];
    this.draw();
  }

  draw() {
    const words = { waiting: "waits for the answer before it", queued: this.say, writing: "", done: "", stopped: this.say || "stopped", failed: this.say };
    text(this.status, words[this.state] || this.say);
    this.status.classList.toggle("chat-bad", this.state === "failed");
    this.node.dataset.state = this.state;
    for (const side of SIDES) {
      const { body, facts } = this.columns[side];
      text(body, this.held() ? "" : visible(this.sides[side].text));
      const [word, title] = this.told(side);
      text(facts, word);
      facts.title = title;
    }
  }

  told(side) {
    if (this.held()) return [this.state === "writing" ? "writing …" : "", ""];
    const { text: said, n_tok, tok_s, finish } = this.sides[side];
    if (!n_tok) return [this.state === "writing" ? "reading the question" : "", ""];
    const { temperature, seed, step } = this.how;
    const who = this.hidden() ? [] : side === "base" ? ["base"] : ["adapter", step === null ? "final" : `step ${step}`];
    const dice = temperature ? [`T ${temperature}`, `seed ${seed}`] : ["greedy"];
    const [word, title] = FINISH[finish] ?? ["writing", ""];
    const parts = [...who, ...dice, `${n_tok} token${n_tok === 1 ? "" : "s"}`, ...(tok_s ? [`${num(tok_s, tok_s < 10 ? 1 : 0)} tok/s`] : []), word];
    return [parts.join(" · ") + (said || !finish ? "" : " · nothing but white space or special tokens"), title];
  }

  finished() {
    if (this.state === "done" && this.how.blind) this.vote();
    if (this.asked.gold !== null && this.asked.gold !== undefined) for (const side of SIDES) if (this.sides[side].n_tok) this.judge(side);
  }

  async judge(side) {
    const { verdict } = this.columns[side];
    text(verdict, "scoring …");
    const answer = await this.chat.tried("verdict", { run: this.how.run, text: this.sides[side].text, answer: this.asked.gold }, (message, fix) => ({ failed: `${message}. ${fix}` }));
    if (answer.failed) return text(verdict, `not scored: ${answer.failed}`);
    this.verdicts[side] = answer.verdicts;
    put(verdict, answer.verdicts.map((v) => this.mark(v)));
    return null;
  }

  mark(v) {
    const value = v.uses === "lenient" ? v.lenient : v.value;
    const read = v.extracted !== null && v.extracted !== undefined;
    const kind = v.status === "failed" || v.status === "not run" ? v.status : value >= 1 ? "right" : value > 0 ? "partly" : v.status === "unreadable" && !read ? "unreadable" : "wrong";
    const more = [read ? `read “${visible(v.extracted).slice(0, 80)}”` : "", v.uses === "lenient" && v.value !== v.lenient ? `strictly ${num(v.value)}` : "", kind === "right" ? "" : visible(v.note)];
    return el("span", { class: "chat-mark", dataset: { verdict: kind, value: value ?? "" }, title: v.rule || null },
      `${v.name} ${MARKS[kind]}`, el("span", { class: "chat-why" }, more.filter(Boolean).map((m) => ` · ${m}`)));
  }

  vote() {
    const button = (choice, label) => el("button", { class: "btn", text: label, dataset: { choice }, on: { click: () => this.choose(choice) } });
    put(this.poll, el("span", { class: "small", text: "Which answer is better?" }), button("a", "A"), button("b", "B"), button("tie", "Tie"));
    this.poll.hidden = false;
  }

  choose(choice) {
    this.choice = choice;
    this.poll.hidden = true;
    this.reveal();
    this.draw();
    const word = choice === "tie" ? "a tie" : `${choice.toUpperCase()}, the ${this.order[choice === "a" ? 0 : 1]}`;
    text(this.status, `You chose ${word}.`);
    this.chat.voted(this);
  }

  ballot() {
    const [a, b] = this.order;
    const cut = (words) => words.slice(0, 20000);
    return { run: this.how.run, prompt: cut(this.asked.question), a: cut(this.sides[a].text), b: cut(this.sides[b].text), choice: this.choice, which: { a, b } };
  }

  line() {
    const { run, step, temperature, seed, max_tokens } = this.how;
    const vote = this.choice && (this.choice === "tie" ? "tie" : this.order[this.choice === "a" ? 0 : 1]);
    return { t: this.t, run, step, temperature, seed, max_tokens, new_talk: this.first, ...this.asked, state: this.state, base: this.sides.base, adapter: this.sides.adapter, verdicts: this.verdicts, vote };
  }

  /** What is read out when it is finished. */
  spoken() {
    if (this.state === "failed") return `No answer: ${this.say}`;
    return this.order.map((side) => `${this.columns[side].title.textContent}: ${visible(this.sides[side].text).slice(0, 300)}`).join(". ");
  }
}
