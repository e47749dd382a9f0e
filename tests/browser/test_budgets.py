"""Time, bytes and memory: a run of 5,000 groups, and a page that stays open."""

import time
from pathlib import Path
from typing import Any

import pytest

from browser import long_run
from browser.conftest import Panel, Visits, probe, until

SLACK = 3  # the machine of the tests is shared; benchmarks/panel.py measures against the true budgets


@pytest.fixture(scope="module")
def long(panel: Panel) -> Path:
    return long_run.write(panel.root / "long", 1000)


def board(**more: Any) -> dict[str, Any]:
    whole = {"step": "live", "scope": "run", "show": "all", "sort": "order", "search": "", "offset": 0, "known": []}
    return {"run": "long", "rev": None, "board": whole | more}


def test_long_run(panel: Panel, long: Path, visit: Visits) -> None:
    begun = time.monotonic()
    page = visit(panel.url, "run=long")
    page.wait_for_selector("li.group")
    assert time.monotonic() - begun < 2.0 * SLACK  # cold: the index is made now
    begun = time.monotonic()
    page.reload()
    page.wait_for_selector("li.group")
    assert time.monotonic() - begun < 1.0 * SLACK
    asked = probe(page, "poll", board(scope="step"))
    assert asked["data"]["board"]["steps"]["n"] == 1000
    assert asked["size"] < 50_000
    narrow = {"show": "mixed", "sort": "longest"}
    for wish in ({"show": "no_signal"}, {"sort": "spread"}, {"search": "make 21"}, narrow):
        assert min(probe(page, "poll", board(**wish))["ms"] for _ in range(3)) < 100 * SLACK, wish
    seen = board(scope="step", known=asked["data"]["board"]["keys"]) | {"rev": asked["data"]["rev"]}
    again = probe(page, "poll", seen)
    assert again["data"]["board"] == {"same": True}
    assert again["size"] < 3_000
    assert again["ms"] < 30 * SLACK


def test_page_that_stays_open(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    """Memory and elements after many steps; the long form is in benchmarks/panel.py."""
    trainer("--steps", "2000", "--rate", "12")
    until((panel.root / name / "run.json").exists)
    page = visit(panel.url, f"run={name}")
    client = page.context.new_cdp_session(page)
    page.wait_for_function("() => document.querySelector('input.place').value >= 8")
    first = weight(client)
    page.wait_for_function("s => document.querySelector('input.place').value >= 100", timeout=14_000)
    last = weight(client)
    assert last["heap"] - first["heap"] < 5e6
    assert last["nodes"] < 60_000  # groups that were seen are kept, up to 400 of them
    assert last["listeners"] < 10_000


def weight(client: Any) -> dict[str, float]:
    client.send("HeapProfiler.collectGarbage")
    counts = client.send("Memory.getDOMCounters")
    heap = client.send("Runtime.getHeapUsage")["usedSize"]
    return {"heap": heap, "nodes": counts["nodes"], "listeners": counts["jsEventListeners"]}
