"""Phones, darkness, keyboards and screen readers."""

from collections.abc import Iterator
from typing import Any

import pytest

from browser.conftest import OPEN, Panel, Visits

TABS = ("groups", "curves", "compare", "chat", "train", "runs")
SMALL = """() => [...document.querySelectorAll('.mg button, .mg input, .mg select, .mg textarea, .mg summary')]
    .filter(e => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.visually-hidden'))
    .map(e => [e, e.getBoundingClientRect(), e.labels?.[0]?.getBoundingClientRect().height ?? 0])
    .filter(([e, r, label]) => (r.width < 23.5 || r.height < 23.5) && label < 23.5)
    .map(([e, r]) => `${e.outerHTML.slice(0, 120)} is ${r.width.toFixed()} x ${r.height.toFixed()}`)"""


@pytest.fixture(scope="module")
def looked_at(panel: Panel) -> str:
    """A finished run that the tests of this file look at."""
    from browser import fake_trainer

    fake_trainer.main([str(panel.root / "looks"), "--steps", "6", "--groups", "5", "--tokens", "6"])
    return "run=looks"


def each_tab(page: Any) -> Iterator[str]:
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')
        if tab == "groups":
            page.locator("article.answer .open:visible, .flip:visible").first.click()
        yield tab


@pytest.mark.parametrize("width", [375, 320])
def test_phone(panel: Panel, looked_at: str, visit: Visits, width: int) -> None:
    page = visit(panel.url, looked_at, viewport={"width": width, "height": 740}, has_touch=True, is_mobile=True)
    for tab in each_tab(page):
        wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= width, (tab, wide)
        assert page.evaluate(SMALL) == [], tab
    page.click("#tab-groups")
    page.get_by_role("button", name="Controls").click()
    assert page.get_by_role("button", name="Light or dark").is_visible()


def test_dark_by_system_and_by_hand(panel: Panel, looked_at: str, visit: Visits) -> None:
    page = visit(panel.url, looked_at, color_scheme="dark")
    assert shade(page) == "dark"
    page.get_by_role("button", name="Light or dark").click()
    assert shade(page) == "light"
    page.reload()
    page.wait_for_selector('.mg[data-ready="1"]')
    assert shade(page) == "light"
    assert shade(visit(panel.url, looked_at)) == "light"
    asked = visit(panel.url + "?__theme=dark", looked_at)
    assert shade(asked) == "dark"


def shade(page: Any) -> str:
    """What the page looks like, from its colours."""
    colour = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    inner = colour.replace("document.body", "document.querySelector('.mg')")
    shades = {"dark" if sum(page.evaluate(c)) < 200 else "light" for c in (colour, inner)}
    assert len(shades) == 1
    return shades.pop()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(panel: Panel, looked_at: str, visit: Visits, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(panel.url, looked_at, color_scheme=theme, reduced_motion="reduce")
    found = []
    for tab in each_tab(page):
        page.wait_for_timeout(100)
        for v in axe.run(page, context=".mg").response["violations"]:
            if v["impact"] in ("serious", "critical"):
                found += [f"{tab}: {v['id']}: {n['html'][:160]} {n['failureSummary'][:200]}" for n in v["nodes"]]
    assert not found, "\n".join(found)


def test_tour_by_keyboard(panel: Panel, looked_at: str, visit: Visits) -> None:
    page = visit(panel.url, looked_at)
    press = page.keyboard.press
    for n, tab in enumerate(TABS, 1):
        press(str(n))
        page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]:visible')
        page.evaluate("document.activeElement.blur()")
    press("1")
    for key, step in (("ArrowLeft", 5), ("ArrowLeft", 4), ("ArrowRight", 5)):  # of six
        press(key)
        page.wait_for_function("s => Number(document.querySelector('input.place').value) === s", arg=step)
    assert page.get_attribute("#mode", "data-mode") == "pinned"
    press("l")
    page.wait_for_selector('#mode[data-mode="live"]')
    press("z")
    page.wait_for_selector('.chip[data-show="no_signal"][aria-pressed="true"]')
    press("z")
    page.wait_for_selector('.chip[data-show="all"][aria-pressed="true"]')
    for _ in range(5):
        press("j")
    assert page.evaluate("() => document.activeElement.closest('.group') !== null")
    press("k")
    before = page.get_attribute("*:focus", "aria-expanded")
    press("Enter")
    assert page.get_attribute("*:focus", "aria-expanded") != before
    press("Enter")
    press("s")
    page.wait_for_selector('.star[aria-pressed="true"]')
    page.locator(OPEN).first.focus()
    press("Enter")
    page.wait_for_selector("article.isopen .full")
    page.evaluate("document.activeElement.blur()")
    press("t")
    page.wait_for_selector(".heat[data-tokens]")
    press("d")
    assert "diffwith" in page.get_attribute("*:focus", "class")
    press("ArrowDown")
    press("Tab")
    page.wait_for_selector("article.isopen .diff")


def test_keys_rest_while_typing_and_can_be_switched_off(panel: Panel, looked_at: str, visit: Visits) -> None:
    page = visit(panel.url, looked_at)
    page.keyboard.press("/")
    page.keyboard.type("z2l")
    assert page.input_value("input[type=search]") == "z2l"
    assert page.get_attribute("#tab-groups", "aria-selected") == "true"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    dialog = page.locator("dialog[open]")
    assert "the tabs" in dialog.inner_text()
    dialog.get_by_text("keys are on").click()
    dialog.get_by_role("button", name="Close").click()
    page.keyboard.press("2")
    page.wait_for_timeout(200)
    assert page.get_attribute("#tab-groups", "aria-selected") == "true"


def test_tabs_are_moved_by_arrows(panel: Panel, looked_at: str, visit: Visits) -> None:
    page = visit(panel.url, looked_at)
    page.focus("#tab-groups")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('#tab-curves[aria-selected="true"]:focus')
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('#tab-groups[aria-selected="true"]:focus')


def test_twice_as_large(panel: Panel, looked_at: str, visit: Visits) -> None:
    """200 % zoom on a laptop is a page of half its width."""
    page = visit(panel.url, looked_at, viewport={"width": 640, "height": 400}, device_scale_factor=2)
    for tab in each_tab(page):
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), tab


def test_browser_that_keeps_nothing(panel: Panel, looked_at: str, visit: Visits) -> None:
    """As in a frame of another site, where storage is blocked."""
    page = visit(panel.url, looked_at)
    denied = "{ get() { throw new DOMException('denied', 'SecurityError'); } }"
    page.context.add_init_script(f"Object.defineProperty(window, 'localStorage', {denied})")
    page.reload()
    page.wait_for_selector('.mg[data-ready="1"]')
    for _ in each_tab(page):
        assert page.locator(".note.bad:visible").count() == 0
    page.get_by_role("button", name="Light or dark").click()


def test_view_that_fails_leaves_the_others(panel: Panel, looked_at: str, visit: Visits) -> None:
    visit.allowed += ["curves.js", "ERR_FAILED"]
    page = visit(panel.url, looked_at)
    page.route("**/web/curves.js*", lambda route: route.abort())
    page.click("#tab-curves")
    page.wait_for_selector("#view-curves .note.bad")
    polls = page.get_attribute(".mg", "data-polls")
    page.click("#tab-groups")
    page.wait_for_selector("li.group")
    page.wait_for_function("n => Number(document.querySelector('.mg').dataset.polls) > n", arg=int(polls))


def test_note_is_kept_and_taken_away(panel: Panel, looked_at: str, visit: Visits) -> None:
    page = visit(panel.url, looked_at)
    group = page.locator("li.group").first

    def written() -> Any:
        group.get_by_text("Prompt and explanation").click()
        return group.get_by_label("A note on this group")

    assert not group.get_by_text("✎ note").is_visible()
    written().fill("look again")
    group.get_by_text("Keep the note").click()
    group.get_by_text("✎ note").wait_for()
    page.reload()
    group.get_by_text("✎ note").wait_for()
    area = written()
    area.wait_for()
    assert area.input_value() == "look again"
    area.fill("")
    group.get_by_text("Keep the note").click()
    group.get_by_text("✎ note").wait_for(state="hidden")
