"""Curves and Runs in the browser: crosshair, zoom, overlay, CSV; table, search, sort, two configs side by side."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import fake_trainer
from browser.conftest import Panel, Visits
from minigrpo import runfolder
from minigrpo.events import Warned, to_line

READY = '[data-view="{}"][data-ready="1"]'
SMALL = """tab => [...document.querySelectorAll(`[data-view="${tab}"] :is(button, input, select, summary)`)]
    .map(b => [b.outerHTML.slice(0, 80), b.closest("label") ?? b]).map(([t, b]) => [t, b.getBoundingClientRect()])
    .filter(([t, r]) => r.height && (r.height < 24 || r.width < 24)).map(([t, r]) => `${t} ${r.width} x ${r.height}`)"""
PLOT = 'figure[data-name="{}"] .plot'


def view(visit: Visits, panel: Panel, tab: str, hash: str = "", **options: Any) -> Any:
    page = visit(panel.url, f"tab={tab}{hash}", **options)
    page.wait_for_selector(READY.format(tab))
    return page


def metrics(run: Path, name: str) -> list[float]:
    events = runfolder.lines(run / "events.jsonl")
    return [e["metrics"][name] for e in events if e["event"] == "Step"]


def now(page: Any, name: str = "reward/mean") -> str:
    return str(page.text_content(f'figure[data-name="{name}"] .now'))


def test_curves_are_in_order_and_say_what_they_are(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "30")
    page = view(visit, panel, "curves", f"&run={name}")
    names = page.eval_on_selector_all("figure.curve", "all => all.map(f => f.dataset.name)")
    assert names[:9] == [
        "reward/mean", "group/signal", "reward/number", "reward/format", "length/cut", "length/mean", "policy/kl",
        "policy/entropy", "policy/clipped",
    ]  # fmt: skip
    assert now(page) == f"step 30: {metrics(run, 'reward/mean')[-1]:.3g}"
    assert "about 0" in page.text_content(".loss")
    assert page.locator(".evals rect").count() == 2
    assert page.locator(".evals line").count() == 2  # intervals
    assert "of 16 held-out questions (lenient), 95 % interval" in page.locator(".evals title").last.text_content()
    assert page.get_attribute('figure[data-name="reward/mean"] .band', "d")
    page.focus('figure[data-name="policy/kl"] .what')
    assert page.locator('figure[data-name="policy/kl"] .help').is_visible()
    page.click('figure[data-name="reward/mean"] summary')
    rows = page.locator('figure[data-name="reward/mean"] tbody tr')
    assert rows.count() == 30


def test_one_crosshair_and_a_way_to_the_groups(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "30")
    page = view(visit, panel, "curves", f"&run={name}")
    kl = page.locator(PLOT.format("policy/kl"))
    kl.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('figure .now').textContent.startsWith('step 18:')")
    assert now(page) == f"step 18: {metrics(run, 'reward/mean')[17]:.3g}"
    assert kl.get_attribute("aria-valuenow") == "18"
    assert kl.get_attribute("aria-valuetext").startswith("step 18: 0.018")
    lines = page.eval_on_selector_all(".cross", "all => all.map(c => [c.style.display, c.getAttribute('x1')])")
    assert len(set(map(tuple, lines))) == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("li.group")
    assert "step=18" in page.url
    page.click("#tab-curves")
    box = page.locator(PLOT.format("reward/mean")).bounding_box()
    page.mouse.click(box["x"] + box["width"] - 13, box["y"] + 60)
    page.wait_for_function("() => location.hash.includes('step=30')")
    assert "tab=groups" in page.url


def test_zoom_survives_updates_in_place(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    trainer("--steps", "300", "--rate", "8")
    page = visit(panel.url, f"tab=curves&run={name}")
    page.wait_for_selector("figure.curve")
    page.wait_for_function("() => Number(document.querySelector('.plot').getAttribute('aria-valuemax')) >= 6")
    page.evaluate("document.querySelector('figure .main').mine = 1")
    box = page.locator(".plot").first.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_selector("#zoom-out:visible")
    page.mouse.move(5, 5)
    labels = (
        "() => [...document.querySelectorAll('figure .grid text[text-anchor=middle]')].map(t => t.textContent).join()"
    )
    zoomed, last = page.evaluate(labels), int(page.get_attribute(".plot", "aria-valuemax"))
    page.wait_for_function(
        "n => Number(document.querySelector('.plot').getAttribute('aria-valuemax')) > n + 8", arg=last
    )
    assert page.evaluate(labels) == zoomed
    assert page.evaluate("document.querySelector('figure .main').mine") == 1  # changed in place, not made anew
    page.click("#zoom-out")
    assert page.evaluate(labels) != zoomed
    assert page.locator("#zoom-out").is_hidden()
    assert run.is_dir()


def test_axis_and_smoothing_are_kept(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "30")
    page = view(visit, panel, "curves", f"&run={name}")
    raw = "figure[data-name='group/signal'] .raw.one"
    assert page.get_attribute(raw, "d")
    page.eval_on_selector("#curve-smooth", "s => { s.value = 0; s.dispatchEvent(new Event('input')); }")
    assert not page.get_attribute(raw, "d")
    page.select_option("#curve-axis", "time")
    assert " s" in page.text_content("figure .grid")
    page.select_option("#curve-axis", "tokens")
    page.reload()
    page.wait_for_selector(READY.format("curves"))
    assert page.input_value("#curve-axis") == "tokens"
    assert page.input_value("#curve-smooth") == "0"


def test_two_runs_in_one_picture(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    recorded("--steps", "20")
    recorded("--steps", "30", "--seed", "1", suffix="-b")
    page = view(visit, panel, "curves", f"&run={name}")
    page.select_option("#curve-with", f"{name}-b")
    page.wait_for_selector(".names:visible")
    assert page.locator(".names").inner_text().split("\n") == [f"{name} (solid)", f"{name}-b (dashed)"]
    assert page.get_attribute("figure .main.two", "d")
    strokes = page.eval_on_selector_all(
        "figure:first-child .main", "all => all.map(p => getComputedStyle(p).strokeDasharray)"
    )
    assert strokes[0] != strokes[1]
    assert now(page).count("·") == 1
    page.click("#diff summary")
    keys = page.locator("#diff tbody th")
    page.wait_for_selector("#diff tbody th")
    assert set(keys.all_text_contents()) == {"steps", "seed"}
    page.uncheck("#diff input")
    assert keys.count() > 30


def test_csv_is_what_was_logged_and_no_formula(
    panel: Panel, name: str, recorded: Any, visit: Visits, tmp_path: Path
) -> None:
    run = recorded("--steps", "7")
    page = view(visit, panel, "curves", f"&run={name}")
    with page.expect_download() as waited:
        page.click("#csv")
    waited.value.save_as(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [int(r["step"]) for r in rows] == list(range(1, 8))
    for metric in ("reward/mean", "policy/grad_norm", "memory/peak"):
        assert [float(r[metric]) for r in rows] == pytest.approx(metrics(run, metric), rel=1e-5)
    asked = ["=1+1", "+x", "-x", "@x", 'a"b', "plain", -0.5, None]
    got = page.evaluate("async a => { const { cell } = await import('/web/curves.js'); return a.map(cell); }", asked)
    assert got == ['"\'=1+1"', '"\'+x"', '"\'-x"', '"\'@x"', '"a""b"', '"plain"', "-0.5", ""]


def test_poisoned_names_and_hints_stay_text(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "3")
    bad = "<img src=x onerror='window.__xss=1'>"
    with open(run / "events.jsonl", "a", encoding="utf-8") as file:
        odd = {"event": "Step", "step": 4, "metrics": {f"reward/{bad}": 1.0, bad: 2.0, "reward/mean": None}}
        file.write(json.dumps(odd) + "\n" + to_line(Warned(4, bad, f"{bad}\u202e", bad)) + "\n")
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("smollm2", json.dumps(bad)))
    page = view(visit, panel, "curves", f"&run={name}")
    assert f"Step 4, {bad}" in page.locator(".hint").first.inner_text()
    assert page.locator("figure h3", has_text=bad).count() == 2
    page.locator(".hint button").first.click()
    assert page.locator(".hint", has_text=bad).count() == 0
    page.click("#tab-runs")
    page.wait_for_selector(READY.format("runs"))
    assert page.locator(f'tr[data-run="{name}"] .model').inner_text() == bad
    assert page.evaluate("window.__xss") is None


def test_the_table_of_runs(panels: Callable[..., Panel], tmp_path: Path, visit: Visits) -> None:
    for n in range(3):
        fake_trainer.main([str(tmp_path / f"run-{n}"), "--steps", str(3 + n), "--seed", str(n)])
    page = view(visit, panels(tmp_path), "runs")
    names = page.locator("tbody .name")
    assert names.count() == 3
    page.click('th[data-key="step"] button')
    assert page.get_attribute('th[data-key="step"]', "aria-sort") == "descending"
    assert names.all_inner_texts() == ["run-2", "run-1", "run-0"]
    page.click('th[data-key="step"] button')
    assert names.all_inner_texts() == ["run-0", "run-1", "run-2"]
    page.fill(".runs input[type=search]", "run-1")
    page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 1")
    page.fill(".runs input[type=search]", "nothing")
    page.wait_for_selector("text=No run matches.")
    page.fill(".runs input[type=search]", "")
    page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 3")
    assert page.locator("#compare-configs").is_disabled()
    for n in (0, 2):
        page.check(f'tr[data-run="run-{n}"] input')
    page.click("#compare-configs")
    page.wait_for_selector("#configs tbody")
    assert set(page.locator("#configs tbody th").all_text_contents()) == {"steps", "seed"}
    page.click("#compare-curves")
    page.wait_for_selector(".names:visible")
    assert "with=run-2" in page.url


def test_rows_have_their_actions(panels: Callable[..., Panel], tmp_path: Path, visit: Visits) -> None:
    run = fake_trainer.main([str(tmp_path / "mine"), "--steps", "2"])
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"state": "stopped"}))
    page = view(visit, panels(tmp_path), "runs")
    acts = "() => [...document.querySelectorAll('.acts button')].map(b => b.dataset.act)"
    assert page.evaluate(acts) == ["resume", "again", "path"]
    page.click('[data-act="path"]')
    page.wait_for_function("p => document.querySelector('.toast').textContent.includes(p)", arg=str(run))
    page.click('[data-act="open"]')
    page.wait_for_selector("li.group")
    read_only = view(visit, panels(tmp_path, "--read-only"), "runs")
    assert read_only.evaluate(acts) == ["path"]


def test_many_runs_come_in_pages(panels: Callable[..., Panel], tmp_path: Path, visit: Visits) -> None:
    for n in range(230):
        folder = tmp_path / f"r{n:03d}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"schema": 1, "id": str(n), "created": 1e9 + n}))
    page = view(visit, panels(tmp_path), "runs")
    assert page.locator("tbody tr").count() == 200
    page.click("text=Next")
    assert page.locator("tbody tr").count() == 30
    assert page.locator("tbody .name").last.inner_text() == "r000"


def test_without_runs_there_is_a_way_to_begin(panels: Callable[..., Panel], tmp_path: Path, visit: Visits) -> None:
    page = view(visit, panels(tmp_path), "runs")
    assert "Nothing trained yet." in page.locator('[data-view="runs"]').inner_text()
    page.click("text=Start the smoke test")
    page.wait_for_function("() => location.hash.includes('tab=train')")
    page.click("#tab-curves")
    page.wait_for_selector('[data-view="curves"] >> text=Nothing trained yet.')


@pytest.mark.parametrize("width", [320, 375])
def test_no_sideways_scroll_on_a_phone(panel: Panel, name: str, recorded: Any, visit: Visits, width: int) -> None:
    recorded("--steps", "12")
    for tab in ("curves", "runs"):
        page = view(visit, panel, tab, f"&run={name}", viewport={"width": width, "height": 740})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        small = page.evaluate(SMALL, tab)
        assert not small
