"""Groups and curves as still HTML, for notebooks: no scripts, nothing to fetch, so a saved notebook shows them too.

What a model or a data set wrote passes through `html.escape`, always; numbers are formatted by us.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minigrpo.errors import printable
from minigrpo.ui.group import Answer, read
from minigrpo.ui.plain import number
from minigrpo.ui.rules import Rules, rules
from minigrpo.ui.words import num, say, signed

TEXT = 600  # characters of an answer or a prompt that are shown
SHOWN = 32  # answers of a group
_WIDE, _HIGH, _LEFT = 640, 130, 34  # of a curve
_STYLE = """<style>
.mg-still{--ink:#1d2129;--muted:#5b616e;--line:#d9d6ce;--surface:#fff;--up:#1f62c9;--down:#b4500b;color:var(--ink);
background:var(--surface);border:1px solid var(--line);border-radius:8px;padding:12px 16px;max-width:900px;
font:14px/1.45 system-ui,sans-serif;font-variant-numeric:tabular-nums;color-scheme:light}
@media (prefers-color-scheme:dark){.mg-still{--ink:#e8eaee;--muted:#a3a9b6;--line:#363b45;--surface:#1c1f25;
--up:#7fb0ff;--down:#f5a262;color-scheme:dark}}
.mg-still p{margin:0 0 6px;color:inherit}.mg-still .mg-quiet{color:var(--muted)}.mg-still .mg-say{margin:8px 0 0}
.mg-still .mg-text{white-space:pre-wrap;overflow-wrap:anywhere;font-family:ui-monospace,Menlo,Consolas,monospace;
font-size:13px}
.mg-still .mg-row{display:grid;grid-template-columns:minmax(110px,1fr) 86px minmax(0,4fr);gap:2px 12px;
padding:6px 0;border-top:1px solid var(--line);align-items:start}
.mg-still .mg-num{text-align:right;font-weight:600;white-space:nowrap}.mg-still .mg-num span{font-weight:400}
.mg-still svg{display:block;width:100%;overflow:visible}
.mg-still .mg-up{fill:var(--up);color:var(--up)}.mg-still .mg-down{fill:var(--down);color:var(--down)}
.mg-still .mg-line{fill:none;stroke:var(--up);stroke-width:2;stroke-linejoin:round}
.mg-still .mg-grid{stroke:var(--line)}.mg-still text{fill:var(--muted);font-size:11px}
</style>"""
_LEGEND = (
    '<p class="mg-say mg-quiet">Bars: advantages. Right, +: becomes more likely. Left, −: becomes less likely.</p>'
)


def group_html(line: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> str:
    """One group of a run, a line of groups/, as the board shows it: prompt, gold, answers, rewards, advantages.

    `config` is the run's: with it the sentence below can say more.
    """
    return still(group(line, rules(dict(config or {}))))


def group(line: Mapping[str, Any], told: Rules) -> str:
    """The same without its frame."""
    found = read(line, told)
    if found is None:
        return "<p>This is not a line of groups/.</p>"
    scale = max([1.0, *(abs(a.adv) for a in found.answers if a.adv is not None)])
    asked = "\n".join(m["content"] if len(found.prompt) == 1 else f"{m['role']}: {m['content']}" for m in found.prompt)
    gold = "" if found.gold is None else f"<p><b>Gold answer</b> {_words(found.gold)}</p>"
    rows = "".join(_answer(a, scale) for a in found.answers[:SHOWN])
    more = f"<p>… {len(found.answers) - SHOWN} more</p>" if len(found.answers) > SHOWN else ""
    taught = f'<p class="mg-say">{_words(say(found, told))}</p>'
    return f'<p class="mg-text">{_words(asked)}</p>{gold}{rows}{more}{_LEGEND}{taught}'


def curve_svg(
    values: Sequence[float | None], label: str = "", *, low: float = 0.0, high: float = 1.0, first: int = 1
) -> str:
    """A small curve over the steps from `first` on; None is a gap. The axis shows `low` and `high` at least."""
    known = {i: v for i, v in enumerate(values) if v is not None and math.isfinite(v)}
    bottom, top = min([low, *known.values()]), max([high, *known.values()])

    def x(i: int) -> str:
        return f"{_LEFT + (_WIDE - _LEFT - 8) * i / max(1, len(values) - 1):.1f}"

    def y(value: float) -> str:
        return f"{8 + (_HIGH - 24) * (1 - (value - bottom) / max(1e-9, top - bottom)):.1f}"

    drawn = "".join(f"{'L' if i - 1 in known else 'M'}{x(i)} {y(v)}" for i, v in known.items())
    dots = "".join(
        f'<circle class="mg-up" cx="{x(i)}" cy="{y(v)}" r="2"/>' for i, v in known.items() if len(known) < 60
    )
    grid = "".join(
        f'<line class="mg-grid" x1="{_LEFT}" x2="{_WIDE}" y1="{y(v)}" y2="{y(v)}"/>'
        f'<text x="{_LEFT - 6}" y="{y(v)}" dy="4" text-anchor="end">{v:.2g}</text>'
        for v in (bottom, (bottom + top) / 2, top)
    )
    axis, last = f'<text x="{_LEFT}" y="{_HIGH}">step {first}</text>', first + len(values) - 1
    axis += f'<text x="{_WIDE}" y="{_HIGH}" text-anchor="end">step {last}</text>' if last > first else ""
    ends = sorted({min(known), max(known)}) if known else []
    told = ", ".join(f"step {first + i}: {known[i]:.2f}" for i in ends) or "no numbers yet"
    return still(
        f'<p><b>{html.escape(label)}</b> <span class="mg-quiet">{told}</span></p>'
        f'<svg viewBox="0 0 {_WIDE} {_HIGH + 4}" role="img" aria-label="{html.escape(label)}, {told}">'
        f'{grid}<path class="mg-line" d="{drawn}"/>{dots}{axis}</svg>'
    )


def still(*pieces: str) -> str:
    """Pieces of HTML, ours, in a frame that brings its own colours, light and dark."""
    return f'{_STYLE}<div class="mg-still">{"".join(pieces)}</div>'


def _answer(answer: Answer, scale: float) -> str:
    facts = [f"answer {answer.i + 1}", *(["cut off"] if answer.cut else [])]
    facts += [f"same as {answer.dup_of + 1}"] if answer.dup_of is not None else []
    reward = "" if answer.reward is None else f"reward {num(answer.reward)}"
    return (
        f'<div class="mg-row"><div>{_bar(answer.adv, scale)}<span class="mg-quiet">{", ".join(facts)}</span></div>'
        f'<div class="mg-num">{_signed(answer.adv)}<br><span class="mg-quiet">{reward}</span></div>'
        f'<div class="mg-text">{_words(answer.text)}</div></div>'
    )


def _bar(value: float | None, scale: float) -> str:
    """A bar from the middle: to the right and blue where the answer is pushed up, to the left and orange where down."""
    length = 0.0 if value is None else 50 * min(1.0, abs(value) / scale)
    up = value is not None and value > 0
    return (
        f'<svg viewBox="0 0 100 10" height="12" preserveAspectRatio="none" role="img" '
        f'aria-label="advantage {_signed(value)}">'
        f'<rect class="mg-{"up" if up else "down"}" x="{50 if up else 50 - length:.1f}" y="1" width="{length:.1f}" '
        f'height="8"/><line class="mg-grid" x1="50" x2="50" y1="0" y2="10"/></svg>'
    )


def _words(text: str) -> str:
    """Escaped; what cannot be seen or reorders the line is a blank."""
    shown = html.escape(printable(text[:TEXT]))
    more = f' <span class="mg-quiet">… {len(text) - TEXT:,} characters more</span>' if len(text) > TEXT else ""
    return f"<bdi>{shown}</bdi>{more}"


def _signed(value: float | None) -> str:
    return "–" if value is None else signed(value)


def metric(events: Iterable[Mapping[str, Any]], name: str) -> list[float | None]:
    """One metric of a run's events, step by step: what `curve_svg` draws."""
    steps = (e.get("metrics") for e in events if e.get("event") == "Step")
    return [number(found.get(name)) if isinstance(found, Mapping) else None for found in steps]
