// Two runs' options side by side.

import { el, put, visible } from "./dom.js";

/** Fills `node` with the table of two runs' options; only those that differ, until all are asked for. */
export async function differences(node, app, [a, b], [one, two]) {
  let rows;
  try {
    ({ rows } = await app.ask("configs", { a, b }));
  } catch (error) {
    return put(node, el("p", { class: "note warn", text: [error.message, error.fix].filter(Boolean).join(": ") }));
  }
  const draw = (all) => {
    const shown = rows.filter((row) => all || !row.same);
    const value = (v) => el("td", { class: "value" }, v === null ? el("span", { class: "muted", text: "not set" }) : el("bdi", { text: visible(v) }));
    put(node,
      el("label", { class: "row small" }, el("input", { type: "checkbox", checked: !all, on: { change: (e) => { draw(!e.target.checked); node.querySelector("input").focus(); } } }), "only what differs"),
      shown.length ? el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Options of both runs" }, el("table", { class: "table diff" },
        el("thead", null, el("tr", null, el("th", { text: "option" }), el("th", { text: one }), el("th", { text: two }))),
        el("tbody", null, shown.map((row) => el("tr", { class: row.same ? "same" : "differs" }, el("th", { scope: "row", text: visible(row.key) }), value(row.a), value(row.b))))))
        : el("p", { class: "muted", text: rows.length ? "Both runs have the same options." : "Neither run has a config that can be read." }));
  };
  draw(false);
  return node;
}
