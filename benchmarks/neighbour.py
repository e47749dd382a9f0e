"""How much one busy process beside it slows a step of the demo: python benchmarks/neighbour.py [PAIRS].

Steps with and without the neighbour alternate in one run; what counts is the median of their ratios.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from minigrpo import demo, session, sinks
from minigrpo.events import Step

pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
folder = Path(tempfile.mkdtemp())
config = demo.config(steps=2 * pairs + 1, seed=0, out=str(folder / "run")).model_copy(update={"eval_n": 0})
busy: subprocess.Popen[bytes] | None = None
seconds: list[float] = []


def watch(s: session.Session) -> None:
    tell = s.tell

    def after(event: object) -> None:
        global busy
        tell(event)  # type: ignore[arg-type]
        if isinstance(event, Step):
            seconds.append(sum(event.seconds.values()))
            if busy:
                busy.kill()
                busy = None
            elif event.step < config.steps:
                busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                time.sleep(0.5)

    s.tell = after


session.start(config, sinks.ConsoleSink(Console(stderr=True)), around=watch)
# the first step warms up; then busy and quiet steps take turns
quiet, loud = seconds[2::2], seconds[1::2]
ratios = [b / q for b, q in zip(loud, quiet, strict=True)]
print(json.dumps({"pairs": pairs, "median": statistics.median(ratios), "ratios": [round(r, 2) for r in ratios]}))
