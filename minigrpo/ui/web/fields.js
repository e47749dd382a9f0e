// The settings of a training as fields: six first, then every option of the config in one list that can be searched.

import { attr, debounce, el, plural, put, text } from "./dom.js";

const ROOMY = ["system_prompt"]; // texts of several lines

/** Fields over `values`, an object that holds only what was set; `changed(key)` is told of every edit. */
export class Fields {
  constructor(values, changed) {
    Object.assign(this, { values, changed, boxes: {}, known: [] });
    this.main = el("fieldset", { class: "card stack" });
    this.search = el("input", { type: "search", placeholder: "search names and meanings", "aria-label": "Search settings", maxlength: 100, on: { input: debounce(() => this.filter(), 120), keydown: (e) => e.key === "Enter" && e.preventDefault() } });
    this.only = el("button", { type: "button", class: "chip", "aria-pressed": "false", text: "Only changed", on: { click: () => this.flip() } });
    this.found = el("span", { class: "muted small", role: "status" });
    this.list = el("div", { class: "settings" });
    this.count = el("span", { class: "muted small" });
    this.all = el("details", { class: "card", id: "all-settings" },
      el("summary", null, el("h3", { text: "All settings" }), this.count),
      el("div", { class: "stack within" }, el("div", { class: "row" }, el("span", { class: "grow" }, this.search), this.only, this.found), this.list));
  }

  /** Draws the fields as the server describes them; what stands in them stays. */
  draw(fields) {
    this.known = fields;
    this.boxes = {};
    const first = fields.filter((f) => f.main).map((f) => this.box(f));
    const small = first.filter((_, i) => fields[i].kind === "number");
    const rest = fields.filter((f) => !f.main).map((f) => this.box(f));
    put(this.main, el("legend", null, el("h3", { text: "What to train" })), first.filter((node) => !small.includes(node)), el("div", { class: "three" }, small));
    put(this.list, rest);
    this.refill();
  }

  /** New suggestions and nothing else: no field loses its focus. */
  offer(fields) {
    this.known = fields;
    for (const f of fields) {
      const box = this.boxes[f.key];
      if (box?.offers) offers(box.offers, f.choices);
      if (box?.offers && !box.rows) attr(box.input, "list", f.choices.length ? box.offers.id : null);
    }
  }

  box(field) {
    const id = `set-${field.key}`;
    const reset = el("button", { type: "button", class: "chip altered", title: `back to ${shown(field.default)}`, "aria-label": `${field.label} was changed: back to the default`, hidden: true, on: { click: () => { this.set(field.key, undefined); this.changed(field.key); this.focus(field.key); } } }, "changed ", el("span", { "aria-hidden": "true", text: "↺" }));
    const error = el("p", { class: "wrong small", id: `${id}-error`, hidden: true });
    const list = field.kind === "list";
    const offered = field.kind === "text" || list ? offers(el("datalist", { id: `${id}-offers` }), field.choices) : null;
    const box = { field, reset, error, offers: offered };
    box.input = list ? this.rewards(box, id) : this.input(field, id);
    const label = list ? el("span", { class: "label", id: `${id}-label` }, field.label) : el("label", { for: id }, field.label);
    const help = el("p", { class: "muted small", id: `${id}-help` }, el("code", { text: field.key }), ` ${meaning(field)}`);
    box.node = el("div", { class: "field setting", dataset: { key: field.key }, role: list ? "group" : null, "aria-labelledby": list ? `${id}-label` : null },
      el("div", { class: "row head" }, label, reset),
      box.input, offered, help, error);
    this.boxes[field.key] = box;
    return box.node;
  }

  input(field, id) {
    const edit = (e) => { this.put(field.key, e.target.value); this.changed(field.key); };
    const common = { id, "aria-describedby": `${id}-help ${id}-error`, autocomplete: "off", spellcheck: "false" };
    if (field.kind === "choice") {
      return el("select", { ...common, on: { change: edit } }, el("option", { value: "", text: `${shown(field.default)} (default)` }),
        field.choices.filter((c) => c.value !== field.default).map((c) => el("option", { value: c.value, text: c.help ? `${c.value}: ${c.help}` : c.value })));
    }
    if (ROOMY.includes(field.key)) return el("textarea", { ...common, rows: 3, on: { input: edit } });
    const numeric = field.kind === "number" ? { inputmode: field.whole ? "numeric" : "decimal" } : {};
    return el("input", { ...common, type: "text", list: field.kind === "text" && field.choices.length ? `${id}-offers` : null, ...numeric, on: { input: edit } });
  }

  /** Rows of a reward and its weight. */
  rewards(box, id) {
    const rows = el("div", { class: "stack rewards" });
    box.rows = rows;
    const add = el("button", { type: "button", class: "btn quiet", text: "+ another reward", on: { click: () => { this.reward(box, id, ["", null]).querySelector("input").focus(); } } });
    return el("div", { class: "stack" }, rows, el("div", { class: "row" }, add));
  }

  reward(box, id, [value, weight]) {
    const read = () => {
      const pairs = [...box.rows.children].map((row) => [...row.querySelectorAll("input")].map((i) => i.value.trim())).filter(([t]) => t);
      this.values.reward = pairs.map(([t, w]) => [t, w === "" ? null : Number.isFinite(Number(w)) ? Number(w) : w]);
      if (!pairs.length) delete this.values.reward;
      this.changed("reward");
    };
    const n = box.rows.children.length + 1;
    const described = `${id}-help ${id}-error`;
    const row = el("div", { class: "row reward" },
      el("input", { type: "text", class: "grow", value, list: `${id}-offers`, "aria-label": `Reward ${n}`, "aria-describedby": described, autocomplete: "off", spellcheck: "false", placeholder: n === 1 ? "number(lenient=True)" : "format()", on: { input: read } }),
      el("input", { type: "text", inputmode: "decimal", class: "weight", value: weight ?? "", "aria-label": `Weight of reward ${n}`, "aria-describedby": described, placeholder: "weight 1", autocomplete: "off", on: { input: read } }),
      el("button", { type: "button", class: "btn quiet", "aria-label": `Remove reward ${n}`, title: "remove", text: "×", on: { click: () => { row.remove(); read(); this.refill("reward"); } } }));
    box.rows.append(row);
    return row;
  }

  /** Takes what was typed into the values; nothing typed is nothing set. */
  put(key, typed) {
    const { kind } = this.boxes[key].field;
    const value = typed.trim();
    if (value === "") delete this.values[key];
    else this.values[key] = kind === "number" && Number.isFinite(Number(value)) ? Number(value) : typed;
  }

  set(key, value) {
    if (value === undefined) delete this.values[key];
    else this.values[key] = value;
    this.refill(key);
  }

  /** Shows the values in the fields. */
  refill(only = null) {
    for (const [key, box] of Object.entries(this.boxes)) {
      if (only && key !== only) continue;
      const value = this.values[key];
      if (box.rows) {
        put(box.rows);
        for (const pair of value?.length ? value : [["", null]]) this.reward(box, `set-${key}`, Array.isArray(pair) ? pair : [pair, null]);
      } else box.input.value = value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    }
    this.marks();
  }

  /** Says which fields differ from their default. `effective` is what holds where they are empty. */
  marks(effective = this.effective ?? {}) {
    this.effective = effective;
    let n = 0;
    for (const [key, box] of Object.entries(this.boxes)) {
      const value = this.values[key];
      const set = value !== undefined && JSON.stringify(value) !== JSON.stringify(box.field.default);
      n += set ? 1 : 0;
      box.node.classList.toggle("set", set);
      box.reset.hidden = !set;
      if (!box.rows && box.input.tagName !== "SELECT") attr(box.input, "placeholder", key === "out" ? "" : shown(effective[key] ?? box.field.default));
    }
    text(this.count, `${plural(this.known.length, "setting")}, ${n} changed`);
    if (this.only.getAttribute("aria-pressed") === "true") this.filter();
  }

  flip() {
    attr(this.only, "aria-pressed", String(this.only.getAttribute("aria-pressed") !== "true"));
    this.filter();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = this.only.getAttribute("aria-pressed") === "true";
    let n = 0;
    for (const { node, field } of Object.values(this.boxes)) {
      if (field.main) continue;
      const all = `${field.key} ${field.label} ${field.help} ${field.choices.map((c) => c.value).join(" ")}`.toLowerCase();
      node.hidden = !words.every((w) => all.includes(w)) || (only && !node.classList.contains("set"));
      n += node.hidden ? 0 : 1;
    }
    text(this.found, words.length || only ? `${n} found` : "");
  }

  /** Puts each mistake at its field. */
  errors(found) {
    for (const [key, box] of Object.entries(this.boxes)) {
      const mine = found.filter((e) => e.key === key);
      box.error.hidden = !mine.length;
      text(box.error, mine.map((e) => [e.message, e.fix].filter(Boolean).join(": ")).join("\n"));
      for (const input of box.rows ? box.rows.querySelectorAll("input") : [box.input]) attr(input, "aria-invalid", mine.length ? "true" : null);
    }
  }

  /** Brings a field into sight, with the cursor in it. */
  focus(key) {
    const box = this.boxes[key];
    if (!box) return;
    if (!box.field.main) {
      this.all.open = true;
      this.search.value = "";
      attr(this.only, "aria-pressed", "false");
      this.filter();
    }
    (box.rows ? box.rows.querySelector("input") : box.input).focus();
  }
}

function offers(list, choices) {
  return put(list, choices.map((c) => el("option", { value: c.value, label: c.help ? `${c.value}  ${c.help}`.slice(0, 160) : null })));
}

const shown = (value) => (value === null || value === undefined || value === "" ? "none" : Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));

function meaning(field) {
  const bounds = [field.min !== null ? `from ${field.min}` : null, field.max !== null ? `to ${field.max}` : null].filter(Boolean).join(" ");
  const standard = field.default === null || field.kind === "choice" ? null : `default ${shown(field.default)}`;
  return [field.help, bounds, standard].filter(Boolean).join("; ");
}
