"""What a board says is so: advantages recomputed from the rewards, and why a group taught nothing."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from browser.conftest import Panel, Visits
from minigrpo import runfolder


def groups(run: Path, step: int) -> list[dict[str, Any]]:
    return [g for g in runfolder.lines(run / "groups" / "000000.jsonl") if g["step"] == step]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def advantages(group: dict[str, Any]) -> list[float]:
    """(reward - mean) / (sample standard deviation + 1e-4), by hand."""
    rewards = [c["reward"] for c in group["completions"]]
    mean = sum(rewards) / len(rewards)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(r - mean) / (std + 1e-4) for r in rewards]


def test_advantages_are_right(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "6", "--groups", "5")
    page = visit(panel.url, f"run={name}&step=4")
    for line in (g for g in groups(run, 4) if g["signal"] == "mixed"):
        wanted = advantages(line)
        card = page.locator("li.group", has_text=line["prompt"])
        shown = card.locator("article.answer")
        values = [number(t) for t in shown.locator(".adv").all_inner_texts()]
        assert [round(w, 2) for w in wanted] == values
        assert abs(sum(wanted)) < 1e-6
        assert abs(sum(values)) <= 0.005 * len(values)
        widths = [float(re.findall(r"[\d.]+", w)[0]) for w in all_of(shown, ".fill", "e => e.style.width")]
        scale = max(1.0, *map(abs, wanted))
        assert all(abs(w - 50 * abs(a) / scale) < 0.5 for w, a in zip(widths, wanted, strict=True))
        signs = all_of(shown, None, "e => e.dataset.sign")
        assert signs == ["up" if a > 0 else "down" if a < 0 else "none" for a in wanted]
        assert side(shown) == ["right" if a >= 0 else "left" for a in wanted]


def all_of(cards: Any, inner: str | None, get: str) -> list[Any]:
    return list((cards.locator(inner) if inner else cards).evaluate_all(f"all => all.map({get})"))


def side(cards: Any) -> list[str]:
    """On which side of the middle a bar lies."""
    code = """e => { const [b, f] = ['.bar', '.fill'].map(c => e.querySelector(c).getBoundingClientRect());
        return (f.left + f.right) / 2 >= (b.left + b.right) / 2 - .5 ? 'right' : 'left'; }"""
    return all_of(cards, None, code)


def test_colour_is_not_the_only_sign(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "2")
    page = visit(panel.url, f"run={name}&step=2", forced_colors="active", reduced_motion="reduce")
    cards = page.locator('li.group[data-signal="mixed"] article.answer')
    for way, sign in (("up", "+"), ("down", "−")):
        some = cards.locator(f'xpath=self::*[@data-sign="{way}"]')
        assert some.count()
        assert all(t.startswith(sign) for t in some.locator(".adv").all_inner_texts())
        word = "plus" if way == "up" else "minus"
        assert all(word in label for label in all_of(some, None, "e => e.ariaLabel"))
        assert {s for s in side(some)} == {"right" if way == "up" else "left"}  # the bars are still there
    assert all(t.strip() for t in cards.locator(".outcome").all_inner_texts())


def test_groups_without_signal(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "3", "--groups", "7")
    lines = groups(run, 3)
    counts = Counter(g["signal"] for g in lines)
    assert set(counts) == {"mixed", "all_right", "all_wrong", "equal"}
    page = visit(panel.url, f"run={name}&step=3")
    chips = {c: int(re.findall(r"\d+$", t)[0]) for c, t in page.locator(".chip[data-show]").evaluate_all(
        "all => all.map(e => [e.dataset.show, e.textContent])")}  # fmt: skip
    dull = len(lines) - counts["mixed"]
    assert {k: chips.get(k) for k in ("all", "mixed", "no_signal", "all_right", "all_wrong")} == {
        "all": len(lines), "mixed": counts["mixed"], "no_signal": dull, "all_right": counts["all_right"],
        "all_wrong": counts["all_wrong"],
    }  # fmt: skip
    said = {s: page.locator(f'li.group[data-signal="{s}"] .say').first.inner_text() for s in counts}
    assert len(set(said.values())) == 4  # each kind is explained in its own words
    page.keyboard.press("z")
    page.wait_for_selector('.chip[data-show="no_signal"][aria-pressed="true"]')
    page.wait_for_function("n => document.querySelectorAll('li.group').length === n", arg=dull)
    assert "mixed" not in page.locator("li.group").evaluate_all("all => all.map(e => e.dataset.signal)")
    looks = "e => getComputedStyle(e).backgroundImage + getComputedStyle(e).borderStyle + getComputedStyle(e).opacity"
    hatched = page.locator("li.group").first.evaluate(looks)
    page.keyboard.press("z")
    page.wait_for_selector('li.group[data-signal="mixed"]')
    assert hatched != page.locator('li.group[data-signal="mixed"]').first.evaluate(looks)


def test_filter_that_hits_nothing_says_where_to_look(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "3")
    page = visit(panel.url, f"run={name}&step=2&search=no+such+words")
    page.wait_for_selector(".empty:not([hidden])")
    assert page.locator("li.group").count() == 0
    page.click("text=Clear the filter")
    page.wait_for_selector("li.group")
