// The lens: what the answers that are pushed up have in common. Reward hacking shows here before it shows in a curve.

import { el, known, num, plural, put, signed, svg, visible } from "./dom.js";

const W = 420;
const H = 190;

/** `answer`: what the server says of the answers of one step. */
export function lens({ points, phrases, step }) {
  const tokens = points.map((p) => p.tokens).filter(known);
  const rewards = points.map((p) => p.reward).filter(known);
  const most = Math.max(1, ...tokens);
  const [low, high] = [Math.min(0, ...rewards), Math.max(1e-9, ...rewards)];
  const x = (v) => 36 + ((W - 48) * v) / most;
  const y = (v) => H - 26 - ((H - 40) * (v - low)) / (high - low);
  const dots = points.filter((p) => known(p.tokens) && known(p.reward)).map((p, n) =>
    svg("circle", { cx: x(p.tokens).toFixed(1), cy: (y(p.reward) + ((n % 5) - 2) * 1.6).toFixed(1), r: 4, class: p.adv > 0 ? "up" : p.adv < 0 ? "down" : "none" },
      svg("title", null, `${p.tokens} tokens, reward ${num(p.reward)}, advantage ${signed(p.adv)}`)));
  const axis = (at, label) => svg("text", { x: at, y: H - 8, class: "axis" }, label);
  const figure = el("figure", { class: "card grow" },
    el("figcaption", null, el("b", { text: "Length and reward" }), el("span", { class: "small muted", text: ` of the ${plural(points.length, "answer")} of step ${step}: blue dots are pushed up, orange ones down` })),
    svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `length against reward of ${points.length} answers` },
      svg("line", { x1: 36, x2: W - 12, y1: y(low), y2: y(low), class: "rule" }), svg("line", { x1: 36, x2: 36, y1: 8, y2: y(low), class: "rule" }),
      axis(36, "0"), axis(W - 90, `${most} tokens`), svg("text", { x: 4, y: 16, class: "axis" }, num(high)), svg("text", { x: 4, y: y(low), class: "axis" }, num(low)), dots));
  const rows = phrases.map((p) => el("tr", null, el("td", null, el("bdi", { class: "mono", text: visible(p.text) })), el("td", { class: "num", text: p.n }), el("td", { class: "num", text: signed(p.adv) })));
  const table = el("div", { class: "card grow stack" }, el("p", null, el("b", { text: "Words that pay" }), el("span", { class: "small muted", text: " the mean advantage of the answers that hold them" })),
    rows.length ? el("table", { class: "table small" }, el("thead", null, el("tr", null, el("th", { text: "words" }), el("th", { class: "num", text: "answers" }), el("th", { class: "num", text: "advantage" }))), el("tbody", null, rows))
      : el("p", { class: "muted", text: "No words stand out in this step." }));
  return put(el("div", { class: "row lens" }), figure, table);
}
