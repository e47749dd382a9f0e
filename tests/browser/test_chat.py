"""Chat and Compare tell the truth: what is called base is the base, what is called adapter the adapter."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from chat_ground import painted as painted

from minigrpo import rewards
from minigrpo.types import Completion, Example

SIDES = ("base", "adapter")
LONG = 120_000  # ms: a process is started and imports torch
POISON = '<img src=x onerror="window.__xss=1"> ${7*7} {{7*7}} \u202e javascript:alert(1) <think>'


@pytest.fixture(scope="module")
def root(painted: Path, panel: Any) -> Path:
    """The shared panel's folder, with the runs on it; a model that one test has loaded is there for the next."""
    for run in painted.iterdir():
        shutil.copytree(run, panel.root / run.name)
    return Path(panel.root)


def opened(visit: Any, url: str, run: str, tab: str = "chat") -> Any:
    page = visit(url, f"tab={tab}&run={run}")
    page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')
    return page


def ask(page: Any, question: str, **settings: float) -> None:
    for name, value in ({"temperature": 0, "max_tokens": 16} | settings).items():
        page.fill(f"input[name={name}]", str(value))
    page.fill("textarea[name=question]", question)
    page.press("textarea[name=question]", "Enter")


def finished(page: Any, n: int) -> list[dict[str, str]]:
    """The turns, once there are `n` and none goes on: {state, base, adapter}."""
    done = f"""() => {{
        const all = [...document.querySelectorAll('.chat-turn')];
        return all.length === {n} && all.every(t => ['done', 'stopped', 'failed'].includes(t.dataset.state));
    }}"""
    page.wait_for_function(done, timeout=LONG)
    read = """() => [...document.querySelectorAll('.chat-turn')].map(turn => {
        const said = side => turn.querySelector(`[data-side=${side}] > .chat-text`)?.textContent;
        return { state: turn.dataset.state, base: said('base'), adapter: said('adapter') };
    })"""
    return list(page.evaluate(read))


def truth(turns: list[dict[str, str]], word: str) -> None:
    for turn in turns:
        assert not any(w in turn["base"] for w in ("BLUE", "RED")), turn
        assert turn["adapter"] == word if turn["state"] == "done" else word.startswith(turn["adapter"]), turn


def test_each_column_is_its_own_side(root: Path, panel: Any, visit: Any) -> None:
    page = opened(visit, panel.url, "blue")
    ask(page, "What is 7 + 5?")
    (first,) = finished(page, 1)
    assert first["state"] == "done"
    truth([first], "BLUE")
    facts = page.inner_text(".chat-side[data-side=adapter] .chat-facts")
    assert facts.startswith("adapter · final · greedy · 5 tokens")
    assert facts.endswith("stop")
    assert page.locator(".note.warn:visible").count() == 0

    for _ in range(5):
        page.locator("text=Ask again").last.click()
        page.wait_for_timeout(60)
    resent = finished(page, 6)
    assert resent[-1]["state"] == "done"
    truth(resent, "BLUE")

    other = opened(visit, panel.url, "blue")  # a second session while the first one asks
    ask(page, "hello")
    ask(other, "Why?")
    truth(finished(other, 1), "BLUE")
    truth(finished(page, 7), "BLUE")

    page.select_option("select[name=adapter]", "2")
    ask(page, "hello")
    ask(other, "What is 7 + 5?")
    assert finished(page, 8)[-1]["adapter"] == "RED"
    truth(finished(page, 8)[7:], "RED")
    truth(finished(other, 2), "BLUE")
    assert "step 2" in page.locator(".chat-side[data-side=adapter] h3").last.inner_text()


def test_stop_by_button_and_by_key_and_nothing_is_lost(root: Path, panel: Any, visit: Any) -> None:
    page = opened(visit, panel.url, "blue")
    for stop in (lambda: page.click("button:text-is('Stop')"), lambda: page.keyboard.press("Escape")):
        ask(page, "What is 7 + 5?", max_tokens=4000)  # the base does not end by itself
        written = "[...document.querySelectorAll('.chat-turn:last-child .chat-side > .chat-text')]"
        page.wait_for_function(f"{written}.some(said => said.textContent.length > 4)", timeout=LONG)
        begun = time.monotonic()
        stop()
        page.wait_for_selector(".chat-turn:last-child[data-state=stopped]")
        assert time.monotonic() - begun < 2
        assert any("stopped" in facts for facts in page.locator(".chat-facts").all_inner_texts()[-2:])
    before = finished(page, 2)
    page.click("#tab-groups")
    page.wait_for_selector('[data-view="groups"]:visible')
    page.click("#tab-chat")
    assert finished(page, 2) == before
    page.click("text=Start over")
    ask(page, "hello")  # after a stop the model is as it was
    truth(finished(page, 3)[2:], "BLUE")
    assert finished(page, 3)[2]["state"] == "done"


def test_verdicts_votes_and_export(root: Path, panel: Any, visit: Any) -> None:
    page = opened(visit, panel.url, "blue")
    ask(page, "What is 7 + 5?")  # it is loaded with it
    finished(page, 1)
    page.check("input[name=blind]")
    page.locator(".chat-offers .chip").first.click()
    page.wait_for_selector(".chat-vote button:visible", timeout=LONG)
    assert page.locator(".chat-turn").last.locator("[data-side]").count() == 0
    assert page.locator(".chat-name").all_inner_texts()[2:] == ["Answer A", "Answer B"]
    page.wait_for_function("document.querySelectorAll('.chat-mark').length === 2")
    page.click(".chat-vote [data-choice=a]")
    page.wait_for_selector("text=blind votes:")
    turn = finished(page, 2)[-1]
    gold = page.locator(".chat-question .mono").last.inner_text()
    for side in ("base", "adapter"):
        score = rewards.text(Completion([], turn[side], [], "stop", []), Example("e", "", gold))
        shown = page.locator(f".chat-turn:last-child [data-side={side}] .chat-mark")
        assert float(shown.get_attribute("data-value")) == score.value
    with page.expect_download() as download:
        page.click("text=Export")
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [line["state"] for line in lines] == ["done", "done"]
    assert lines[1]["vote"] in ("base", "adapter")
    notes = [json.loads(line) for line in (root / "blue" / "notes.jsonl").read_text().splitlines()]
    assert notes[-1]["vote"]["winner"] == lines[1]["vote"]


def test_an_evaluation_from_the_page(root: Path, panel: Any, visit: Any) -> None:
    shutil.rmtree(root / "blue" / "eval")  # what its training kept
    page = opened(visit, panel.url, "blue", "compare")
    assert "No evaluation yet" in page.inner_text(".empty:visible")
    page.select_option("select[name=n]", "16")
    page.select_option("select[name=which]", "4")
    page.wait_for_function("document.querySelector('.cmp-cost').textContent.startsWith('16 questions')")
    page.click("text=Run evaluation")
    page.wait_for_selector("text=Evaluating: 16 questions, step 4")
    page.wait_for_selector(".cmp-side", timeout=LONG)
    assert "step 4" in page.inner_text(".cmp-table tbody tr")
    assert {t.strip() for t in page.locator(".cmp-side[data-side=adapter] .cmp-text").all_inner_texts()} == {"BLUE"}


def test_results_are_shown_with_their_doubt(root: Path, panel: Any, visit: Any) -> None:
    run = Path(shutil.copytree(root / "zero", root / "judged"))
    pairs = [(0, 1)] * 5 + [(1, 0)] * 2 + [(1, 1)] * 6 + [(0, 0)] * 3
    answers = [
        {
            "question": f"q{i} {POISON}",
            "gold": POISON,
            **{s: {"text": POISON * 40, "value": v} for s, v in zip(SIDES, pair, strict=True)},
        }
        for i, pair in enumerate(pairs)
    ]
    side = {"strict": 0.5, "lenient": None, "cut": 0.0, "mean_tokens": 3.0, "interval": [0.28, 0.72]}
    sides = {"base": side, "adapter": side | {"strict": 0.6875, "interval": [0.44, 0.86]}}
    result = {"task": POISON, "n": 16, "main": "strict", **sides, "paired_p": 0.45, "t": 1.8e9, "answers": answers}
    shutil.rmtree(run / "eval")
    (run / "eval").mkdir()
    (run / "eval" / "one.json").write_text(json.dumps(result))
    (run / "eval" / "two.json").write_text(json.dumps(result | {"n": None}))
    page = opened(visit, panel.url, "judged", "compare")
    page.wait_for_selector(".cmp-row")
    assert page.locator(".cmp-table tbody tr").count() == 1
    row = page.inner_text(".cmp-table tbody tr")
    for part in ("16", "50 %", "28 % to 72 %", "69 %", "5 / 2 / 9", "0.45"):
        assert part in row
    assert "n = 16: the interval is ±22 points" in page.inner_text(".note.warn:visible")
    assert "no clear difference" in page.inner_text(".cmp-say")
    for show, n in {"all": 16, "differ": 7, "gained": 5, "lost": 2, "right": 6, "wrong": 3}.items():
        page.click(f"[data-show={show}]")
        assert page.locator(".cmp-row").count() == n
    assert page.evaluate("window.__xss") is None
    assert "49" not in page.inner_text(".cmp-row >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_adapter_that_changes_nothing_has_a_banner(root: Path, panel: Any, visit: Any) -> None:
    page = opened(visit, panel.url, "zero")
    page.click("text=Load")
    page.wait_for_selector(".chat-state[data-state=ready]", timeout=LONG)
    assert "This adapter changes nothing" in page.inner_text(".note.warn:visible")
    page.click("text=Unload")
    page.wait_for_function("document.querySelector('.chat-state').textContent.startsWith('Not loaded')")
