"""The Train tab: from a filled form to the first group of a run that a real trainer writes."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import ROOT, Panel, Visits, until

pytest.importorskip("playwright")
from playwright.sync_api import expect

from minigrpo import runfolder

TRAIN = '[data-view="train"][data-ready="1"]'
MINE = """
from minigrpo.types import Example

def few(split, seed):
    for i in range(6):
        yield Example(f"{split}{i}", f"What is <b>{i}</b> + 1?", i + 1)

def low(completion, example):
    return sum(i < 128 for i in completion.ids) / max(1, len(completion.ids))
"""
PATIENT = 90_000  # ms; a trainer has to import torch first


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def fill(page: Any, **values: object) -> None:
    for key, value in values.items():
        field = page.locator(f"#set-{key}")
        field.select_option(str(value)) if field.evaluate("e => e.tagName") == "SELECT" else field.fill(str(value))


def command(page: Any) -> list[str]:
    return shlex.split(page.locator(".command").inner_text())


def checked(page: Any) -> Any:
    expect(page.locator("#train-state")).to_have_text(re.compile("Ready|to mend"), timeout=PATIENT)
    return page.locator("#train-state")


@pytest.mark.slow
def test_from_the_form_to_the_first_group(
    panels: Callable[..., Panel], visit: Visits, mine: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    panel = panels(tmp_path / "runs")
    page = visit(panel.url, "tab=train")
    page.wait_for_selector(TRAIN)
    expect(page.locator('.preset[aria-pressed="true"]')).to_contain_text("Smoke test")
    page.get_by_role("button", name="All defaults").click()
    page.locator("#all-settings summary").first.click()
    fill(page, model=tiny_folder, task=f"{mine}:few()", steps=3, group_size=3, max_tokens=6, prompts_per_step=2)
    fill(page, eval_n=2, lr=0.01, dtype="fp32", out="by-hand")
    page.get_by_label("Reward 1", exact=True).fill(f"{mine}:low()")
    page.get_by_label("Weight of reward 1").fill("0.5")
    expect(page.locator(".example").first.locator(".prompt")).to_have_text("What is <b>0</b> + 1?", timeout=PATIENT)
    expect(checked(page)).to_have_text("Ready.")
    words = command(page)
    assert words[words.index("--reward") + 1] == f"{mine}:low(weight=0.5)"
    shown = subprocess.run(
        [sys.executable, "-m", *words, "--explain", "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(shown.stdout)["steps"] == 3
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile("run=by-hand"), timeout=PATIENT)
    expect(page.locator('[data-view="groups"]')).to_contain_text("What is <b>", timeout=PATIENT)
    run = panel.root / "by-hand"
    until(lambda: runfolder.state(run) == "finished", 90)
    assert (run / "train.log").read_text().strip()
    page.click("#tab-train")
    assert page.locator("#set-out").input_value() == ""
    fill(page, out="by-hand")
    expect(page.locator("#set-out-error")).to_contain_text("there is a 'by-hand' already", timeout=PATIENT)


def test_mistakes_stand_at_their_fields(panel: Panel, visit: Visits) -> None:
    page = visit(panel.url, "tab=train")
    page.wait_for_selector(TRAIN)
    fill(page, task="arithmetik()")
    page.locator("#all-settings summary").first.click()
    page.get_by_label("Search settings").fill("learning")
    expect(page.locator(".setting:visible", has_text="at its highest")).to_be_visible()
    expect(page.locator("#set-seed")).to_be_hidden()
    fill(page, lr="fast")
    expect(page.locator("#set-lr-error")).to_contain_text("lr='fast'", timeout=PATIENT)
    expect(page.locator("#set-task-error")).to_contain_text("did you mean 'arithmetic'?", timeout=PATIENT)
    assert "set-lr-error" in page.locator("#set-lr").get_attribute("aria-describedby")
    assert page.locator("#set-lr").get_attribute("aria-invalid") == "true"
    page.get_by_role("button", name="Go to task").click()
    assert page.evaluate("document.activeElement.id") == "set-task"
    page.get_by_role("button", name="lr was changed: back to the default").click()
    page.get_by_role("button", name="Task was changed: back to the default").click()
    expect(checked(page)).to_have_text("Ready.", timeout=PATIENT)
    assert page.locator("#set-lr").get_attribute("aria-invalid") is None


def test_settings_outlive_a_reload_and_rewards_are_tried(panel: Panel, visit: Visits) -> None:
    page = visit(panel.url, "tab=train")
    page.wait_for_selector(TRAIN)
    fill(page, steps=77)
    page.get_by_role("button", name="+ another reward").click()
    page.get_by_label("Reward 2", exact=True).fill("format()")
    page.get_by_label("Weight of reward 2").fill("0.25")
    page.reload()
    page.wait_for_selector(TRAIN)
    assert page.locator("#set-steps").input_value() == "77"
    assert page.get_by_label("Weight of reward 2").input_value() == "0.25"
    expect(page.locator(".example")).to_have_count(3, timeout=PATIENT)
    page.get_by_role("button", name="good", exact=True).click()
    expect(page.get_by_text("Reward 1.00")).to_be_visible(timeout=PATIENT)
    page.get_by_label("Completion", exact=True).fill("<answer>no</answer><img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Score it").click()
    expect(page.get_by_text("Reward 0.00")).to_be_visible(timeout=PATIENT)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save config").click()
    assert "format(weight=0.25)" in saved.value.path().read_text()
    page.get_by_role("button", name="All defaults").click()
    assert page.locator("#set-steps").input_value() == ""
    expect(page.locator(".command")).to_have_text("minigrpo train", timeout=PATIENT)


@pytest.mark.slow
def test_a_start_that_fails_shows_the_words(panel: Panel, visit: Visits, name: str) -> None:
    page = visit(panel.url, "tab=train")
    page.wait_for_selector(TRAIN)
    page.locator("#all-settings summary").first.click()
    fill(page, model="no/such-model", out=name)
    expect(checked(page)).to_have_text("Ready.", timeout=PATIENT)
    page.get_by_role("button", name="Start training").click()
    expect(page.locator("#not-started")).to_contain_text("no/such-model", timeout=PATIENT)
    expect(page.locator("#not-started")).to_contain_text("To mend it:")
    assert not (panel.root / name).exists()


def test_another_runs_settings_are_taken_over(panel: Panel, visit: Visits, recorded: Any, mine: Path) -> None:
    run = recorded("--steps", "2")
    config = run / "config.yaml"
    trap = mine.with_name("ran")
    mine.write_text(f"open({str(trap)!r}, 'w')\n" + MINE)
    config.write_text(f"task: '{mine}:few()'\nreward: [number(weight=0.5), format()]\nsteps: 9\n")
    page = visit(panel.url, f"tab=train&from={run.name}")
    page.wait_for_selector(TRAIN)
    assert page.locator("#set-steps").input_value() == "9"
    assert page.get_by_label("Weight of reward 1").input_value() == "0.5"
    assert "from=" not in page.url
    allow = page.get_by_role("button", name="I know this code: run it")
    expect(allow).to_be_visible(timeout=PATIENT)
    assert not trap.exists()
    allow.click()
    expect(page.locator(".example")).to_have_count(3, timeout=PATIENT)
    assert trap.exists()
