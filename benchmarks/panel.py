"""The panel against its budgets, as one JSON document: python benchmarks/panel.py [--neighbour PAIRS | --real STEPS].

Pages are real ones, in Chromium; the trainer is the fake one of tests/browser. CPU shares are of one core, from the
panel's own process. --neighbour trains smollm2 instead, with a page open in every second step: what does that cost?
--real trains it beside two pages: how late is a group, and does a page that stays on a step move?
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser import long_run  # noqa: E402
from browser.conftest import FLAGS, PROBE, READY, Panel, executable, probe  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from minigrpo.runfolder import lines, read_status  # noqa: E402


def cpu(pid: int) -> float:
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """MB in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def opened(browser: Any, url: str, wanted: str = READY) -> Any:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(PROBE)
    page.goto(url)
    page.wait_for_selector(wanted)
    return page


def timed(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


@contextmanager
def trainer(run: Path, *flags: str) -> Iterator[None]:
    command = [sys.executable, str(ROOT / "tests" / "browser" / "fake_trainer.py"), str(run), *flags]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while not (run / "events.jsonl").exists():
        time.sleep(0.05)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def opening(browser: Any, panel: Panel, steps: int) -> dict[str, Any]:
    """A long finished run, opened by a panel that has not seen it, and asked all kinds of things."""
    long_run.write(panel.root / "long", steps)
    url = f"{panel.url}#run=long"
    opened(browser, panel.url).context.close()  # the browser has the page's files; the panel has no index
    cold = timed(lambda: opened(browser, url, "li.group"))
    page = opened(browser, url, "li.group")
    warm = statistics.median(timed(lambda: (page.reload(), page.wait_for_selector("li.group"))) for _ in range(5))
    board = {"step": "live", "scope": "run", "show": "all", "sort": "order", "search": "", "offset": 0, "known": []}

    def ms(**more: Any) -> dict[str, float]:
        found = [probe(page, "poll", {"run": "long", "rev": None, "board": board | more}) for _ in range(9)]
        return {"ms": round(statistics.median(f["ms"] for f in found), 1), "kb": round(found[0]["size"] / 1000, 1)}

    found = {
        "groups": steps * 5, "open_cold_s": round(cold, 2), "open_warm_s": round(warm, 2), "poll": ms(scope="step"),
        "filter": ms(show="no_signal"), "sort": ms(sort="spread"), "search": ms(search="make 21"),
        "filter_sort_search": ms(show="mixed", sort="longest", search="make"),
    }  # fmt: skip
    page.context.close()
    return found


def watching(browser: Any, panel: Panel, viewers: int, seconds: float) -> dict[str, Any]:
    """What `viewers` pages cost that watch a run with a step every two seconds."""
    with trainer(panel.root / f"live-{viewers}", "--steps", "100000", "--rate", "0.5", "--groups", "8"):
        pages = [opened(browser, f"{panel.url}#run=live-{viewers}") for _ in range(viewers)]
        time.sleep(3)
        before, begun = cpu(panel.process.pid), time.perf_counter()
        pages[0].wait_for_timeout(1000 * seconds)
        share = (cpu(panel.process.pid) - before) / (time.perf_counter() - begun)
        for page in pages:
            page.context.close()
    return {"viewers": viewers, "in": "Chromium contexts", "seconds": seconds, "cpu_share": round(share, 3)}


def staying(browser: Any, panel: Panel, seconds: float) -> dict[str, Any]:
    """How a page grows that stays open while two steps a second arrive."""
    with trainer(panel.root / "stays", "--steps", "100000", "--rate", "2", "--groups", "8"):
        page = opened(browser, f"{panel.url}#run=stays", "li.group")
        client = page.context.new_cdp_session(page)

        def weigh() -> tuple[float, int]:
            client.send("HeapProfiler.collectGarbage")
            nodes = client.send("Memory.getDOMCounters")["nodes"]
            return client.send("Runtime.getHeapUsage")["usedSize"] / 1e6, nodes

        page.wait_for_timeout(min(60.0, seconds) * 1000)  # as many groups as a page keeps
        first = weigh()
        page.wait_for_timeout(1000 * seconds)
        last = weigh()
        page.context.close()
    return {
        "seconds": seconds, "heap_mb": [round(first[0], 1), round(last[0], 1)],
        "heap_growth_mb": round(last[0] - first[0], 2), "nodes": [first[1], last[1]],
    }  # fmt: skip


def neighbour(browser: Any, panel: Panel, pairs: int) -> dict[str, Any]:
    """Step times of a real training with a page open in every second step."""
    from rich.console import Console

    from minigrpo import demo, session, sinks
    from minigrpo.events import Step

    seconds: list[float] = []
    page: Any = None
    config = demo.config(2 * pairs + 1, 0, str(panel.root / "real")).model_copy(update={"eval_n": 0})

    def watch(s: session.Session) -> None:
        tell = s.tell

        def after(event: Any) -> None:
            nonlocal page
            tell(event)
            if isinstance(event, Step):
                seconds.append(sum(event.seconds.values()))
                if page:
                    page.context.close()
                    page = None
                elif event.step < config.steps:
                    page = opened(browser, f"{panel.url}#run=real", "li.group")
                time.sleep(1.5)  # opening and closing are not what is measured

        s.tell = after

    session.start(config, sinks.ConsoleSink(Console(stderr=True)), around=watch)
    watched, alone = seconds[1::2], seconds[::2]
    ratios = [w / statistics.mean(pair) for w, pair in zip(watched, pairwise(alone), strict=True)]  # a trend falls out
    return {
        "pairs": pairs, "alone_s": round(statistics.median(alone), 3),
        "watched_s": round(statistics.median(watched), 3),
        "median_ratio": round(statistics.median(ratios), 3), "ratios": [round(r, 2) for r in ratios],
    }  # fmt: skip


SEEN = """window.seen = {}; new MutationObserver(() => document.querySelectorAll('li.group').forEach(g => {
    const step = g.dataset.key.split('/')[0]; window.seen[step] ??= Date.now() / 1000; }))
    .observe(document.documentElement, { subtree: true, childList: true });"""
PLACE = """() => { const card = document.querySelector('article.answer.isopen'); return [scrollY,
    card.querySelector('.open').getAttribute('aria-expanded'), card.textContent, document.activeElement.className,
    document.querySelector('.place').value]; }"""


def real(browser: Any, panel: Panel, steps: int) -> dict[str, Any]:
    """A real training: how late its groups are on a page that follows, and what moves on one that stays."""
    run = panel.root / "smollm2"
    command = [sys.executable, "-m", "minigrpo", "train", "--task=arithmetic(high=15)", f"--out={run}"]
    sets = ("prompts_per_step=4", f"steps={steps}", "max_tokens=16", "eval_n=0", "lr=5e-4")
    process = subprocess.Popen([*command, *(f"--set={s}" for s in sets)])
    while not list(lines(run / "groups" / "000000.jsonl")):
        time.sleep(0.2)
    live = opened(browser, f"{panel.url}#run=smollm2", "li.group")
    live.evaluate(SEEN)
    page = opened(browser, f"{panel.url}#run=smollm2", "li.group[data-signal='mixed']")
    page.click("li.group[data-signal='mixed'] article.answer .open")
    page.wait_for_selector(".why")
    page.evaluate("scrollTo(0, 150)")
    before, since = page.evaluate(PLACE), read_status(run)["step"]
    while process.poll() is None:
        live.wait_for_timeout(500)
    live.wait_for_timeout(3000)
    written = {g["step"]: g["t"] for g in lines(run / "groups" / "000000.jsonl")}
    late = [at - written[int(step)] for step, at in live.evaluate("window.seen").items() if int(step) > since]
    return {
        "steps_followed": len(late), "late_s": [round(min(late), 2), round(max(late), 2)],
        "steps_while_pinned": read_status(run)["step"] - since, "moved": page.evaluate(PLACE) != before,
        "exit": process.returncode,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="of the long run")
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0, help="for which viewers watch")
    parser.add_argument("--live", type=float, default=180.0, help="seconds for which a page stays open")
    parser.add_argument("--neighbour", type=int, default=0, metavar="PAIRS", help="only this: steps with and without")
    parser.add_argument("--real", type=int, default=0, metavar="STEPS", help="only this: a page beside a real training")
    args = parser.parse_args()
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=executable(), args=FLAGS)
        panel = Panel(Path(folder))
        start_mb = resident(panel.process.pid)
        found: dict[str, Any]
        if args.neighbour:
            found = {"neighbour": neighbour(browser, panel, args.neighbour)}
        elif args.real:
            found = {"real": real(browser, panel, args.real)}
        else:
            found = {
                "open": opening(browser, panel, args.steps), "one": watching(browser, panel, 1, args.seconds),
                "many": watching(browser, panel, args.viewers, args.seconds),
                "stays": staying(browser, panel, args.live),
            }  # fmt: skip
        memory = {"start_mb": round(start_mb), "end_mb": round(resident(panel.process.pid))}
        print(json.dumps({**found, "panel": memory}))
        browser.close()
        panel.close()


if __name__ == "__main__":
    main()
