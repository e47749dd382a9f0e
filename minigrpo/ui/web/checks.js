// What comes of the settings before anything starts: the data as they are read, the rewards tried, memory, the command.

import { copy, el, num, plural, put, save, text, visible } from "./dom.js";

/** The right side of the Train tab. `settings()` gives {reward, hold} as they stand. */
export class Checks {
  constructor(app, settings) {
    Object.assign(this, { app, settings, gold: "", asked: 0 });
    this.rows = el("div", { class: "stack" });
    this.notes = el("ul", { class: "stack small" });
    this.memory = el("p", { class: "small" });
    this.command = el("pre", { class: "command", tabindex: 0, "aria-label": "The command that does the same" });
    this.nodes = [
      card("Data preview", this.rows),
      this.trying(),
      card("Memory", this.memory),
      card("The same by hand", this.command, el("div", { class: "row" },
        el("button", { type: "button", class: "btn", text: "Copy command", on: { click: async () => app.say((await copy(this.command.textContent)) ? "Command copied" : "The browser does not allow it: select and copy") } }),
        el("button", { type: "button", class: "btn", text: "Save config", title: "a YAML file for `minigrpo train FILE`", on: { click: () => save("minigrpo.yaml", this.yaml ?? "", "application/yaml") } }))),
    ];
  }

  draw(plan, release) {
    this.yaml = plan.yaml;
    text(this.command, plan.command);
    text(this.memory, plan.memory.say);
    put(this.notes, plan.notes.map((n) => el("li", { text: n })));
    this.data(plan.preview, release);
    const gold = plan.preview.rows[0]?.gold;
    if (gold !== undefined && (this.answer.value === "" || this.answer.value === this.gold)) this.answer.value = gold;
    this.gold = gold ?? this.gold;
  }

  data(seen, release) {
    const counts = [seen.train === null ? null : `${plural(seen.train, "question")} to train on`, seen.test === null ? null : `${seen.test} held out`].filter(Boolean).join(", ");
    const lines = [counts, seen.say, ...seen.notes].filter(Boolean);
    put(this.rows, lines.map((l) => el("p", { class: "small muted", text: visible(l) })),
      seen.held?.length ? el("div", { class: "note warn stack" },
        el("p", { text: `These settings run Python code from ${seen.held.map(visible).join(", ")}. Look into it before you allow that.` }),
        el("div", { class: "row" }, el("button", { type: "button", class: "btn", text: "I know this code: run it", on: { click: release } }))) : null,
      seen.rows.map((r) => this.row(r)),
      seen.unusable.length ? el("details", { class: "note warn" }, el("summary", { text: visible(seen.unusable[0]) }), el("ul", null, seen.unusable.slice(1).map((u) => el("li", { class: "small", text: visible(u) })))) : null);
  }

  row(r) {
    return el("article", { class: "example stack" },
      el("pre", { class: "prompt", text: visible(r.prompt) }),
      el("p", { class: "small" }, "Answer ", el("bdi", { class: "mono gold", text: visible(r.gold) }), " ",
        el("span", { class: r.found ? "good" : "bad", title: visible(r.say) }, r.found ? "✓ the reward can read it" : `✗ ${visible(r.say)}`)));
  }

  trying() {
    const id = "try-completion";
    this.completion = el("textarea", { id, rows: 3, maxlength: 100000, spellcheck: "false", on: { keydown: (e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && this.score() } });
    this.answer = el("input", { id: "try-answer", type: "text", autocomplete: "off", spellcheck: "false" });
    this.verdicts = el("div", { class: "stack", role: "status" });
    const example = (label, make) => el("button", { type: "button", class: "chip", text: label, on: { click: () => { this.completion.value = make(); this.score(); } } });
    return card("Try the rewards",
      el("p", { class: "small muted", text: "What would they give this completion? Nothing is trained, and nothing is kept." }),
      el("div", { class: "row", role: "group", "aria-label": "Examples" },
        example("good", () => this.answer.value || "42"), example("bad", () => "I am not sure: 41, or perhaps 43."),
        example("empty", () => ""), example("huge", () => "9".repeat(5000))),
      el("div", { class: "field" }, el("label", { for: id, text: "Completion" }), this.completion),
      el("div", { class: "field" }, el("label", { for: "try-answer", text: "Right answer" }), this.answer),
      el("div", { class: "row" }, el("button", { type: "button", class: "btn", text: "Score it", on: { click: () => this.score() } })),
      this.verdicts);
  }

  async score() {
    const mine = ++this.asked;
    const { reward = ["number(lenient=True)"], hold } = this.settings();
    put(this.verdicts, el("p", { class: "muted small", text: "scoring…" }));
    let shown;
    try {
      const answer = await this.app.ask("try_reward", { reward, hold, completion: this.completion.value, answer: this.answer.value });
      shown = verdicts(answer);
    } catch (error) {
      shown = el("p", { class: "note bad", text: [error.message, error.fix].filter(Boolean).join(": ") });
    }
    if (mine === this.asked) put(this.verdicts, shown);
  }
}

function verdicts({ verdicts: found, reward }) {
  return [
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Verdicts" }, el("table", { class: "table" },
      el("thead", null, el("tr", null, ["Reward", "Strict", "Lenient", "Weight", "Read"].map((h, i) => el("th", { scope: "col", class: i && i < 4 ? "num" : "", text: h })))),
      el("tbody", null, found.map((v) => el("tr", null,
        el("td", { text: v.name }), el("td", { class: "num", text: num(v.value) }), el("td", { class: "num", text: num(v.lenient) }),
        el("td", { class: "num", text: num(v.weight) }), el("td", { class: "words" }, read(v))))))),
    el("p", null, "Reward ", el("strong", { text: num(reward) })),
  ];
}

function read(v) {
  const found = v.extracted === null ? null : el("bdi", { class: "mono", text: visible(v.extracted.length > 80 ? `${v.extracted.slice(0, 40)} … ${v.extracted.slice(-30)}` : v.extracted) });
  const status = v.status === "ok" ? null : v.status;
  return [found, [found ? null : "nothing", v.rule && v.rule !== "none" ? `by ${v.rule}` : null, status, v.note].filter(Boolean).map((w) => ` ${visible(w)}`).join(",")];
}

function card(title, ...inside) {
  return el("section", { class: "card stack", "aria-label": title }, el("h3", { text: title }), inside);
}
