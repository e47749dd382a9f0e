// One answer: what it says, what its rewards read in it, and how far it was pushed.

import { copy, el, known, marked, num, put, signed, visible } from "./dom.js";
import { heat } from "./tokens.js";

export const OUTCOMES = {
  right: ["●", "full marks"], partly: ["◐", "part of the marks"], wrong: ["○", "no marks"], cut: ["✂", "cut off"],
  unreadable: ["∅", "no answer found"], failed: ["✕", "reward failed"],
};

/** The sign and the word of an outcome. Reward for form alone is not being partly right. */
export function outcome(answer) {
  const [sign, word] = OUTCOMES[answer.outcome] ?? ["?", answer.outcome];
  const formOnly = answer.outcome === "partly" && answer.parts.length > 1 && answer.parts[0].value === 0;
  return [sign, formOnly ? "not right, yet rewarded" : word];
}

const FLAGS = { dropped: "left out of the update", empty: "empty" };

/** A diverging bar: right and blue pushes up, left and orange pushes down; sign and number are printed too. */
export function bar(adv, scale) {
  const share = known(adv) ? Math.min(1, Math.abs(adv) / (scale || 1)) : 0;
  const fill = el("span", { class: adv < 0 ? "fill down" : "fill up" });
  fill.style.width = `${50 * share}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, fill);
}

export function heading(answer) {
  const sign = known(answer.adv) ? `advantage ${answer.adv < 0 ? "minus" : "plus"} ${num(Math.abs(answer.adv))}` : "no advantage";
  return `Answer ${answer.i + 1}, ${sign}, ${outcome(answer)[1]}`;
}

/** The closed card. `act` holds what its buttons do. */
export function card(group, answer, needle, act) {
  const [sign, word] = outcome(answer);
  const open = el("button", {
    class: "btn quiet open", "aria-expanded": "false", "aria-label": `Open: ${heading(answer)}`, text: "Open", on: { click: () => act.toggle(group.key, answer.i) },
  });
  return el("article", { class: "answer", dataset: { i: answer.i, outcome: answer.outcome, sign: answer.adv > 0 ? "up" : answer.adv < 0 ? "down" : "none" }, "aria-label": heading(answer) },
    el("h4", { class: "visually-hidden", text: heading(answer) }),
    el("div", { class: "pushed", title: pushed(answer, group) },
      el("span", { class: "who", text: answer.i + 1 }), bar(answer.adv, group.scale), el("b", { class: "adv", text: signed(answer.adv) })),
    el("div", { class: "verdict" }, el("span", { class: `outcome ${answer.outcome}` }, el("span", { "aria-hidden": "true", text: sign }), ` ${word}${answer.outcome === "cut" && group.limit ? ` at ${group.limit} tokens` : ""}`),
      flags(group, answer)),
    el("div", { class: "said" }, excerpt(answer, needle)),
    el("div", { class: "foot small muted" }, breakdown(answer), lengths(group, answer), el("span", { class: "grow" }), open),
    el("div", { class: "inside", hidden: true }));
}

function pushed(answer, group) {
  if (!known(answer.adv)) return "no advantage recorded";
  if (answer.adv === 0) return "advantage 0: this answer is neither made more nor less likely";
  const way = answer.adv > 0 ? "more" : "less";
  return `advantage ${signed(answer.adv)}: reward ${num(answer.reward)} against the group's mean ${num(group.mean)}; this answer becomes ${way} likely`;
}

function flags(group, answer) {
  const words = [];
  if (answer.flags.includes("cut") && answer.outcome !== "cut") words.push(group.limit ? `✂ cut at ${group.limit} tokens` : "✂ cut off");
  if (answer.flags.includes("dup")) words.push(known(answer.dup_of) ? `= same text as ${answer.dup_of + 1}` : "= repeated text");
  if (answer.flags.includes("unreadable") && answer.outcome !== "unreadable") words.push("∅ no answer found");
  if (answer.flags.includes("failed") && answer.outcome !== "failed") words.push("✕ reward failed");
  for (const [flag, label] of Object.entries(FLAGS)) if (answer.flags.includes(flag)) words.push(label);
  if (answer.plan && "exit" in answer.plan) words.push(`exit ${answer.plan.exit}`);
  if (answer.plan && "thought" in answer.plan) words.push(`thought ${answer.plan.thought}`);
  return words.map((w) => el("span", { class: "flag", text: w }));
}

function excerpt(answer, needle) {
  const { text: shown, start, end, before, after } = answer.excerpt;
  const more = (there) => (there ? el("span", { class: "muted", title: "the text goes on: open it", text: "…" }) : null);
  if (!shown) return el("span", { class: "muted", text: "(nothing)" });
  return [more(before), pieces(shown, start, end, needle, answer.parts[0]?.status === "unreadable"), more(after)];
}

/** Text with the stretch that the reward read outlined. Places are counted in code points, as Python counts them. */
export function pieces(shown, start, end, needle, seen) {
  if (!known(start) || !known(end) || end <= start) return el("bdi", null, marked(shown, needle));
  const points = Array.from(shown);
  const part = (from, to) => marked(points.slice(from, to).join(""), needle);
  return el("bdi", null, part(0, start), el("span", { class: seen ? "read seen" : "read", title: seen ? "seen, but not in the form that the reward's strict reading asks for" : "what the reward read" }, part(start, end)), part(end));
}

function breakdown(answer) {
  const several = answer.parts.length > 1;
  const shares = answer.parts.map((p) => [p.name, p.status === "failed" ? "failed" : `${num(p.share)}${several && p.weight > 0 ? ` of ${num(p.weight)}` : ""}`]);
  const sum = several ? ` = ${num(answer.reward)}` : "";
  return el("span", { class: "parts", title: answer.parts.map((p) => `${p.name}: ${num(p.value)} × weight ${num(p.weight)}`).join("\n") },
    shares.map(([name, value], i) => [i ? " + " : "", `${name} `, el("b", { text: value })]), sum || (shares.length ? "" : `reward ${num(answer.reward)}`));
}

function lengths(group, answer) {
  const most = group.limit || group.tokens?.[1] || 1;
  const fill = el("span");
  fill.style.width = `${Math.min(100, (100 * answer.n_tok) / most)}%`;
  if (!known(answer.n_tok)) return null; // TRL does not record it
  return el("span", { class: "length", title: group.limit ? `${answer.n_tok} of at most ${group.limit} tokens` : `${answer.n_tok} tokens` },
    `${answer.n_tok} tok`, el("span", { class: "lengthbar", "aria-hidden": "true" }, fill));
}

/** Fills an open card from the whole group. */
export function inside(box, app, group, whole, i, needle) {
  const answer = whole.answers.find((a) => a.i === i);
  const main = answer.parts.find((p) => known(p.start)) ?? {};
  const said = el("div", { class: "full mono", tabindex: "0", role: "group", "aria-label": "the whole answer" }, answer.text ? pieces(answer.text, main.start, main.end, needle, main.status === "unreadable") : el("span", { class: "muted", text: "(nothing)" }));
  const below = el("div", { class: "below stack" });
  const more = answer.more ? el("button", { class: "btn quiet", text: "Show the whole text", on: { click: () => all(app, whole, i, said) } }) : null;
  const others = whole.answers.filter((a) => a.i !== i);
  const pick = el("select", { "aria-label": "Compare with", class: "diffwith", on: { change: (e) => e.target.value !== "" && difference(app, below, whole, i, Number(e.target.value)) } },
    el("option", { value: "", text: "compare with …" }), others.map((a) => el("option", { value: a.i, text: `answer ${a.i + 1} (${signed(a.adv)})` })));
  put(box,
    el("div", { class: "row tools" },
      el("button", { class: "btn tokens", text: "Tokens", title: "numbers of every token", on: { click: () => tokens(app, below, whole, i) } }),
      el("button", { class: "btn copy", text: "Copy", on: { click: async () => app.say((await copy(answer.text)) ? "copied" : "the browser does not allow copying") } }),
      pick,
      app.can.chat ? el("button", { class: "btn", text: "To chat", title: "asks base and adapter this question", on: { click: () => app.go({ tab: "chat", ask: whole.key }) } }) : null,
      more),
    el("div", { class: "two" }, said, why(whole, answer)), below);
  return answer;
}

async function all(app, whole, i, said) {
  try {
    const { text } = await app.ask("text", { run: whole.run, key: whole.key, i });
    put(said, el("bdi", { text: visible(text) }));
  } catch (error) {
    app.say(error.message);
  }
}

function why(whole, answer) {
  const steps = (answer.why ?? []).map((w) => [el("dt", { text: w.part }), w.steps.map(([what, value]) => el("dd", null, el("span", { class: "muted", text: `${what} ` }), el("bdi", { text: visible(value) })))]);
  return el("section", { class: "why stack", "aria-label": "Why this score" },
    el("h4", { text: "Why this score" }),
    el("p", { class: "small", text: answer.arithmetic ?? "" }),
    answer.parts.length ? el("table", { class: "table small" },
      el("thead", null, el("tr", null, ["part", "score", "weight", "counts"].map((h, i) => el("th", { class: i ? "num" : null, text: h })))),
      el("tbody", null, answer.parts.map((p) => el("tr", null, el("td", { text: p.name }), el("td", { class: "num", text: p.status === "failed" ? "failed" : num(p.uses === "lenient" ? p.lenient : p.value) }), el("td", { class: "num", text: num(p.weight) }), el("td", { class: "num", text: num(p.share) }))),
        el("tr", null, el("td", { text: "reward" }), el("td"), el("td"), el("td", { class: "num" }, el("b", { text: num(answer.reward) })))))
      : null,
    el("dl", { class: "small" }, steps),
    answer.spans?.length > 1 ? spans(answer) : null);
}

/** Where a completion has stretches with advantages of their own: thought and answer, or steps that were judged one by one. */
function spans(answer) {
  return el("table", { class: "table small" }, el("caption", { class: "visually-hidden", text: "stretches with an advantage of their own" }),
    el("thead", null, el("tr", null, ["stretch", "tokens", "advantage"].map((h, i) => el("th", { class: i ? "num" : null, text: h })))),
    el("tbody", null, answer.spans.slice(0, 200).map((s) => el("tr", null, el("td", { text: s.kind ?? "–" }), el("td", { class: "num", text: `${s.start}–${s.end}` }), el("td", { class: "num", text: signed(s.adv) })))));
}

export async function tokens(app, below, whole, i) {
  try {
    put(below, heat(await app.ask("tokens", { run: whole.run, key: whole.key, i })));
  } catch (error) {
    put(below, el("p", { class: "note", dataset: { tokens: "absent" } }, error.message, error.fix ? `: ${error.fix}` : ""));
  }
  below.scrollIntoView({ block: "nearest" });
}

export async function difference(app, below, whole, i, j) {
  try {
    const { ops } = await app.ask("diff", { run: whole.run, a: [whole.key, i], b: [whole.key, j] });
    const kinds = { "=": "span", "-": "del", "+": "ins" };
    put(below, el("p", { class: "small muted" }, el("del", { text: `only in answer ${i + 1}` }), "  ", el("ins", { text: `only in answer ${j + 1}` })),
      el("div", { class: "full mono diff" }, el("bdi", null, ops.map(([kind, value]) => el(kinds[kind] ?? "span", { text: visible(value) })))));
  } catch (error) {
    put(below, el("p", { class: "note bad", text: error.message }));
  }
}
