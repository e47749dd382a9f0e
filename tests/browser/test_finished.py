"""Folders at rest: a finished run, a damaged one, one that is gone, and none at all."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import fake_trainer
from browser.conftest import OPEN, Panel, Visits
from minigrpo.ui.replay import recordings

TABS = ("groups", "curves", "compare", "chat", "train", "runs")


def files(run: Path) -> dict[str, tuple[int, int]]:
    return {
        str(p.relative_to(run)): (p.stat().st_mtime_ns, p.stat().st_size)
        for p in run.rglob("*")
        if p.is_file() and p.name != "notes.jsonl" and "control" not in p.parts
    }


def drawn(page: Any, tab: str) -> None:
    page.click(f"#tab-{tab}")
    page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')


def test_finished_run_is_only_read(tmp_path: Path, panels: Callable[..., Panel], visit: Visits) -> None:
    run = fake_trainer.main([str(tmp_path / "runs" / "old"), "--steps", "5", "--tokens", "2"])
    before = files(run)
    page = visit(panels(tmp_path / "runs").url)
    assert page.get_attribute("#pill", "data-state") == "finished"
    for tab in TABS:
        drawn(page, tab)
        page.wait_for_timeout(200)
    drawn(page, "groups")
    page.locator(OPEN).first.click()
    page.wait_for_selector("article.isopen .full")
    page.locator("article.isopen .tokens").click()
    page.wait_for_selector(".heat[data-tokens]")
    names = set(page.locator("button:visible").all_inner_texts())
    assert not names & {"Pause", "Stop & save", "Force stop"}
    assert files(run) == before


def test_tokens_that_were_not_kept(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "5", "--tokens", "2")
    page = visit(panel.url, f"run={name}&step=1")
    page.locator(OPEN).first.click()
    page.locator("article.isopen .tokens").click()
    assert "Not recorded for step 1" in page.inner_text("[data-tokens=absent]")


@pytest.mark.parametrize("seed", range(3))
def test_damaged_folder_never_blanks_the_page(panel: Panel, name: str, recorded: Any, visit: Visits, seed: int) -> None:
    run, rng = recorded("--steps", "4"), random.Random(seed)
    for path in ("groups/000000.jsonl", "events.jsonl", "config.yaml", "run.json", "status.json"):
        data = bytearray((run / path).read_bytes())
        for _ in range(8):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randrange(200)]
                case _:
                    data[at:at] = data[max(0, at - 100) : at]
        (run / path).write_bytes(data)
    page = visit(panel.url, f"run={name}")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_function("view => document.querySelector(view).innerText.trim()", arg=f"#view-{tab}")
    assert page.locator("#pill").inner_text().strip()


def test_run_that_goes_away(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "2")
    page = visit(panel.url, f"run={name}")
    page.wait_for_selector("li.group")
    shutil.rmtree(run)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # a finished run is asked for rarely
    page.wait_for_selector("#trouble")
    assert name in page.inner_text("#trouble")


def test_nothing_yet_then_a_run(tmp_path: Path, panels: Callable[..., Panel], visit: Visits, trainer: Any) -> None:
    page = visit(panels(tmp_path / "runs").url)
    assert "Nothing trained yet" in page.inner_text(".empty")
    trainer("--steps", "20", "--rate", "2", run=tmp_path / "runs" / "first")
    page.wait_for_selector("li.group", timeout=12_000)  # by itself
    assert page.get_attribute("#pill", "data-state") == "running"


@pytest.mark.skipif(not recordings(), reason="no recorded run in the package")
def test_first_visit(tmp_path: Path, panels: Callable[..., Panel], visit: Visits) -> None:
    """The first minute of a person who has nothing yet."""
    begun = time.monotonic()
    page = visit(panels(tmp_path / "runs").url)
    page.click("text=Watch a recorded run")
    page.wait_for_selector("li.group article.answer", timeout=30_000)
    page.click('.chip[data-show="no_signal"]')
    page.click('.chip[data-show="all"]')
    page.click("#tab-curves")
    page.wait_for_selector('[data-view="curves"][data-ready="1"]')
    assert time.monotonic() - begun < 60
