// Elements made of text nodes and attributes alone: what a model wrote never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `attrs`: class, text, dataset {…}, on {event: function}, all else setAttribute; null and false are left out. */
export function el(tag, attrs, ...children) {
  return dress(document.createElement(tag), attrs, children);
}

/** The same for SVG. */
export function svg(tag, attrs, ...children) {
  return dress(document.createElementNS(SVG, tag), attrs, children);
}

function dress(node, attrs, children) {
  for (const [key, value] of Object.entries(attrs ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.setAttribute("class", value);
    else if (key === "text") node.textContent = value;
    else if (key === "dataset") Object.assign(node.dataset, value);
    else if (key === "on") for (const [name, f] of Object.entries(value)) node.addEventListener(name, f);
    else node.setAttribute(key, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces what is inside. */
export function put(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Sets the text only where it differs, so that a selection in it survives. */
export function text(node, value) {
  const wanted = value ?? "";
  if (node.textContent !== wanted) node.textContent = wanted;
  return node;
}

/** Sets or removes an attribute only where it differs. */
export function attr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : value);
  return node;
}

/** Brings `parent`'s children into the order of `nodes`, moving only what is out of place. */
export function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, i) => {
    if (parent.childNodes[i] !== node) parent.insertBefore(node, parent.childNodes[i] ?? null);
  });
}

/** States of a run that goes on. */
export const LIVE = ["starting", "running", "paused", "stopping"];

export const known = (x) => typeof x === "number" && Number.isFinite(x);

export function num(x, digits = 2) {
  return known(x) ? x.toFixed(digits).replace("-", "−") : "–";
}

export function signed(x, digits = 2) {
  if (!known(x)) return "–";
  const body = Math.abs(x).toFixed(digits);
  return Number(body) === 0 ? body : (x > 0 ? "+" : "−") + body;
}

export function pct(x) {
  return known(x) ? `${Math.round(100 * x)} %` : "–";
}

export function duration(seconds) {
  if (!known(seconds)) return "–";
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export function bytes(n) {
  if (!known(n)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function plural(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

export function debounce(f, ms) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

const here = new Map(); // for a browser that keeps nothing for this page: it lasts as long as the page does

/** What was remembered under this name. */
export function recall(name, otherwise = null) {
  try {
    return localStorage.getItem(`minigrpo.${name}`) ?? otherwise;
  } catch {
    return here.get(name) ?? otherwise;
  }
}

/** Keeps a text in this browser. */
export function remember(name, value) {
  try {
    localStorage.setItem(`minigrpo.${name}`, value);
  } catch {
    here.set(name, String(value));
  }
}

/** Puts text on the clipboard; false where the browser does not allow it. */
export async function copy(value) {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    return false;
  }
}

/** Lets the person save a file that the page made. */
export function save(name, content, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Control characters, bidirectional overrides and lone surrogates, which would hide or reorder what was written.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** What a model or a data set wrote, with what cannot be seen made visible. One character stays one character. */
export function visible(value) {
  return String(value ?? "").replace(HIDDEN, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/** `value` with the words of `needle` marked. */
export function marked(value, needle) {
  const shown = visible(value);
  if (!needle) return [shown];
  const parts = [];
  const low = shown.toLowerCase();
  const what = needle.toLowerCase();
  if (low.length !== shown.length) return [shown]; // a letter that changes length in lower case: places would be off
  let from = 0;
  for (let at = low.indexOf(what); at >= 0; at = low.indexOf(what, from)) {
    parts.push(shown.slice(from, at), el("mark", { text: shown.slice(at, at + what.length) }));
    from = at + what.length;
  }
  return [...parts, shown.slice(from)];
}
