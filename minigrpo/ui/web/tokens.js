// The tokens of one answer, coloured by what the policy thinks of them. Colour is doubled by an underline, and a number.

import { attr, el, known, num, pct, put, signed, text, visible } from "./dom.js";

const MODES = {
  change: { label: "change by this step", of: (t) => minus(t.new, t.old), says: (x) => `log-prob ${signed(x, 3)}, ${num(Math.exp(x), 2)} times as likely after the step`, both: true },
  base: { label: "away from the base", of: (t) => minus(t.old, t.ref), says: (x) => `log-prob ${signed(x, 3)} against the base model`, both: true },
  entropy: { label: "uncertainty (entropy)", of: (t) => t.entropy, says: (x) => `entropy ${num(x, 3)}: the policy wavered between about ${num(Math.exp(x), 1)} tokens` },
  chance: { label: "probability when sampled", of: (t) => (known(t.old) ? Math.exp(t.old) : null), says: (x) => `probability ${pct(x)} when it was sampled` },
};

const minus = (a, b) => (known(a) && known(b) ? a - b : null);

/** `answer`: what the server says of the tokens of one completion. */
export function heat({ tokens, clip }) {
  const box = el("div", { class: "heat", tabindex: "0", role: "group", "aria-label": "tokens; left and right move from one to the next", dataset: { tokens: tokens.length } });
  const readout = el("p", { class: "small readout", "aria-live": "polite" });
  const legend = el("p", { class: "small muted" });
  const nodes = tokens.map((t, i) => el("span", { class: "token", dataset: { at: i, kind: t.kind ?? "answer" }, on: { pointerenter: () => tell(i) } }, shown(t.text)));
  let mode = "change";
  let at = -1;
  const modes = el("div", { class: "row", role: "group", "aria-label": "what the colours show" }, Object.entries(MODES).map(([name, m]) =>
    el("button", { class: "chip", "aria-pressed": String(name === mode), text: m.label, on: { click: (e) => (press(e.currentTarget), (mode = name), paint()) } })));

  function press(button) {
    for (const b of modes.children) attr(b, "aria-pressed", String(b === button));
  }

  function paint() {
    const m = MODES[mode];
    const values = tokens.map(m.of);
    const most = Math.max(1e-9, ...values.filter(known).map(Math.abs));
    nodes.forEach((node, i) => {
      const x = values[i];
      const level = known(x) ? Math.ceil((5 * Math.abs(x)) / most) : 0;
      attr(node, "data-level", level || null);
      attr(node, "data-way", known(x) && x < 0 ? "down" : "up");
      const ratio = mode === "change" && known(x) ? Math.exp(x) : null;
      attr(node, "data-clipped", clip && ratio !== null && (ratio < clip[0] || ratio > clip[1]) ? "1" : null);
    });
    const bounds = mode === "change" && clip ? ` A dotted frame: beyond the clip bounds ${num(clip[0])} and ${num(clip[1])}.` : "";
    text(legend, values.some(known) ? `${m.both ? "Blue: more likely, orange: less. " : ""}Strongest colour: ${num(most, 3)}.${bounds} · is a space, ↵ a new line; hatched tokens were not learnt from.` : "Not recorded for these tokens.");
    tell(at);
  }

  function tell(i) {
    nodes[at]?.classList.remove("at");
    at = i;
    nodes[at]?.classList.add("at");
    if (i < 0) return text(readout, "Point at a token, or move with the arrow keys.");
    const x = MODES[mode].of(tokens[i]);
    text(readout, `token ${i + 1} of ${tokens.length} “${shown(tokens[i].text)}”: ${known(x) ? MODES[mode].says(x) : "not recorded"}`);
  }

  box.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    e.stopPropagation();
    tell(Math.max(0, Math.min(nodes.length - 1, at + step)));
  });
  put(box, nodes);
  paint();
  return el("section", { class: "stack", "aria-label": "tokens" }, modes, box, readout, legend);
}

function shown(value) {
  return visible(value).replaceAll(" ", "·").replaceAll("\n", "↵\n").replaceAll("\t", "⇥");
}
