"""A run that goes on: groups appear, a reload finds its place, and nothing moves under the reader's eyes."""

import json
import time
from pathlib import Path
from typing import Any

from browser.conftest import OPEN, Panel, Visits, until
from minigrpo import runfolder


def groups(run: Path) -> list[dict[str, Any]]:
    return list(runfolder.lines(run / "groups" / "000000.jsonl"))


def step_of(page: Any) -> int:
    return int(page.input_value("input.place"))


def begin(trainer: Any, run: Path, *flags: str) -> Any:
    """A fake trainer whose run is there."""
    process = trainer(*flags)
    until((run / "run.json").exists)
    return process


def test_live_group_appears(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    begin(trainer, run, "--steps", "9", "--rate", "0.5")
    page = visit(panel.url, f"run={name}")
    late = []
    for step in (1, 2, 3):
        page.wait_for_function("s => document.querySelector('input.place').value >= s", arg=step)
        told = next(e for e in runfolder.lines(run / "events.jsonl") if (e["event"], e["step"]) == ("Step", step))
        late.append(time.time() - told["t"])
    assert min(late) < 2.0  # seconds from its line to the screen
    for said in ("mpling", "pdating", "mpling"):
        page.wait_for_function("s => document.querySelector('#pill').textContent.includes(s)", arg=said)
    assert page.get_attribute("#pill", "data-state") == "running"
    page.click("#mode")  # pins the step that is shown
    step = step_of(page)
    line = next(g for g in groups(run) if g["step"] == step and g["signal"] == "mixed")
    shown = page.locator(f'li.group[data-signal="mixed"]:has-text("{line["prompt"]}")')
    assert shown.locator("article.answer").count() == 8
    assert shown.locator(".gold").inner_text().endswith(str(line["answer"]))
    page.click("#mode")
    page.wait_for_function("s => document.querySelector('input.place').value > s", arg=step)


def test_reload_finds_its_place(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    process = begin(trainer, run, "--steps", "200", "--rate", "3")
    page = visit(panel.url, f"run={name}")
    page.click('.chip[data-show="mixed"]')
    page.locator(OPEN).first.click()
    page.wait_for_selector("article.isopen .full")
    before = place(page)
    assert before["show"] == "mixed"
    page.reload()
    page.wait_for_selector("article.isopen .full")
    assert place(page) == before
    other = visit(panel.url, page.url.partition("#")[2])
    other.wait_for_selector("article.isopen .full")
    assert place(other) == before
    assert process.poll() is None
    assert runfolder.read_status(run)["pid"] == process.pid


def place(page: Any) -> dict[str, Any]:
    return dict(
        page.evaluate("""() => ({
            step: document.querySelector('input.place').value,
            show: document.querySelector('.chip[aria-pressed="true"]').dataset.show,
            open: document.querySelector('article.isopen').closest('.group').dataset.key,
            member: document.querySelector('article.isopen').dataset.i,
            shown: [...document.querySelectorAll('li.group')].map(g => g.dataset.key),
        })""")
    )


VIEW = """() => {
    const open = document.querySelector('article.isopen'), at = name => document.querySelector(name);
    return { step: at('input.place').value, thumb: at('input[type=range]').value, mode: at('#mode').dataset.mode,
        scroll: scrollY, top: open.getBoundingClientRect().top, expanded: open.querySelector('.open').ariaExpanded,
        focus: document.activeElement.className, chosen: String(getSelection()) };
}"""


def test_pinned_stays_pinned(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    begin(trainer, panel.root / name, "--steps", "400", "--rate", "6")
    page = visit(panel.url, f"run={name}")
    page.wait_for_function("() => document.querySelector('input.place').value >= 5")
    page.locator(OPEN).first.click()
    page.wait_for_selector("article.isopen .full")
    page.evaluate("""() => {
        const full = document.querySelector('article.isopen .full');
        document.querySelector('article.isopen .copy').focus();
        scrollTo(0, full.getBoundingClientRect().top + scrollY - 300);
        getSelection().selectAllChildren(full);
    }""")
    before = page.evaluate(VIEW)
    assert before["mode"] == "pinned"
    assert before["chosen"]
    page.wait_for_function("() => parseInt(document.querySelector('#fresh').textContent) >= 20")
    after = page.evaluate(VIEW)
    assert after == before
    page.click("#fresh")
    page.wait_for_function("s => document.querySelector('input.place').value >= Number(s) + 20", arg=before["step"])
    assert page.get_attribute("#mode", "data-mode") == "live"
    assert page.locator("article.isopen").count() == 0


def test_other_tabs_and_hidden_pages_ask_little(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    begin(trainer, panel.root / name, "--steps", "200", "--rate", "2")
    page = visit(panel.url, f"run={name}")
    asked: list[Any] = []
    page.on("request", lambda r: "component_server" in r.url and asked.append(json.loads(r.post_data)))
    page.wait_for_timeout(2500)
    assert 2 <= len(asked) <= 5  # about one a second, from one loop
    page.click("#tab-curves")
    page.wait_for_selector('[data-view="curves"][data-ready="1"]')
    asked.clear()
    page.wait_for_timeout(2500)
    assert all(q["fn_name"] != "poll" or q["data"]["board"] is None for q in asked)
    page.evaluate("""() => {
        Object.defineProperty(document, 'hidden', { value: true, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    page.wait_for_timeout(1500)
    asked.clear()
    page.wait_for_timeout(2000)
    assert not asked


def test_six_pages_stay_fresh_beside_slow_work(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    begin(trainer, panel.root / name, "--steps", "400", "--rate", "4")
    pages = [visit(panel.url, f"run={name}") for _ in range(6)]
    slow = "run => setInterval(() => window.probe('curves', { run, points: 600 }), 100)"
    busy = pages[0].evaluate(slow, name)
    before = [int(p.get_attribute(".mg", "data-polls")) for p in pages]
    ages: list[float] = []
    end = time.monotonic() + 5
    while time.monotonic() < end:
        for page in pages:
            newest = runfolder.read_status(panel.root / name)["step"]
            ages.append((newest - step_of(page)) / 4)
        pages[0].wait_for_timeout(200)
    pages[0].evaluate("busy => clearInterval(busy)", busy)
    after = [int(p.get_attribute(".mg", "data-polls")) for p in pages]
    assert max(ages) < 3.0  # seconds behind the trainer
    assert all(a - b >= 2 for a, b in zip(after, before, strict=True))
