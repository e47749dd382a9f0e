"""A trainer without a model: writes a run folder as a real one would, step by step, from made-up completions.

`python fake_trainer.py RUN --steps 20 --rate 4`. Content comes from the seed alone; --rate 0 takes no time at all.
"""

import argparse
import json
import math
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from minigrpo import config, metrics, runfolder
from minigrpo.algo import advantage, aggregate
from minigrpo.desk import Abandoned, Desk
from minigrpo.events import Ended, Evaluated, Saved, Started, Step, Warned
from minigrpo.rewards import scoring
from minigrpo.sinks import FolderSink
from minigrpo.types import Completion, Example, Group, Span

REWARDS = ["number(lenient=True)", "format(weight=0.2)"]
POISON = [
    "<img src=x onerror='window.__xss=1'>", "<script>window.__xss=2</script>", "</pre></div><svg onload=__xss=3>",
    "{{7*7}} ${7*7} #{7*7}", "<a href='javascript:window.__xss=4'>x</a>", "\u202eRTL \u2066 override", "x" * 200_000,
    "\x1b[31mred\x1b[0m \x07", "\ud800 lone", "NUL \x00 here", "<think>literal</think><answer>7</answer>", "",
]  # fmt: skip


class Silent:
    def __call__(self, event: Any) -> None: ...

    def progress(self, phase: str, done: int | None = None, of: int | None = None) -> None: ...

    def close(self) -> None: ...


def group(step: int, i: int, args: argparse.Namespace) -> Group:
    """A sum and its answers: the later the step, the more are right; groups 0 to 2 of a step have no signal."""
    rng = random.Random(f"{args.seed}/{step}/{i}")
    a, b = rng.randint(2, 9 + i), rng.randint(2, 15)
    kind = {0: "right", 1: "wrong", 2: "equal"}.get(i, "mixed") if args.groups > 3 else "mixed"
    share = {"right": 1.0, "wrong": 0.0, "equal": 1.0}.get(kind, min(0.95, 0.3 + step / 60))
    made = []
    for n in range(args.size):
        value = a + b if rng.random() < share else a + b + rng.choice([-2, -1, 1, 3])
        text = f"<think>{a} and {b} make {value}.</think><answer>{value}</answer>"
        if kind == "mixed":  # one right and one wrong at least, one plain, one cut off, one twice
            plain = [text, f"{a} + {b} = {a + b + 1}", f"The answer is {a + b}", "I think that", text]
            text = plain[n] if n < len(plain) else text
        elif kind != "right":
            text = f"It is {value}"
        if args.poison and kind == "mixed":
            text = POISON[(step + i + n) % len(POISON)] + (f" {a + b}" if n % 2 else "")
        ids = list(text.encode("utf-8", "replace"))[: 12 + 5 * n]
        spans = [Span("thought", 0, len(ids) // 2), Span("answer", len(ids) // 2, len(ids))]
        finish = "length" if n == 3 and kind == "mixed" else "stop"
        made.append(Completion(ids, text, spans, finish, [-rng.random() for _ in ids]))
    question = f"What is {a} + {b}?" + (POISON[(step + i) % 6] if args.poison else "")
    return Group(f"{step}-{i}", Example(f"sum-{i}", question, a + b), [1, 2, 3], made, 64)


def step_event(step: int, args: argparse.Namespace, parts: list[Any]) -> Step:
    groups = scoring.score([group(step, i, args) for i in range(args.groups)], parts)[0]
    seconds = {"rollout": 0.6 / (args.rate or 10), "score": 0.05, "train": 0.35 / (args.rate or 10)}
    numbers = metrics.of_groups(groups, groups, parts, seconds)
    numbers |= {"policy/kl": step / 1000, "policy/grad_norm": 1 / step, "policy/clipped": 0.01, "memory/peak": 1e9}
    weights = aggregate.token_mean(groups)
    lines = [
        runfolder.group_line(step, g, advantage.group_norm(g), w, True, parts, "parallel()")
        for g, w in zip(groups, weights, strict=True)
    ]
    return Step(step, numbers, seconds, lines, _tokens(groups) if args.tokens else {})


def _tokens(groups: list[Group]) -> dict[str, Any]:
    rows = [(i, n, c) for i, g in enumerate(groups) for n, c in enumerate(g.completions)]
    ends = [np.minimum(np.arange(1, len(c.ids) + 1), len(c.text)) for _, _, c in rows]
    old = np.concatenate([c.logprobs for _, _, c in rows]).astype(np.float32)
    int32 = {"gid_index": [r[0] for r in rows], "member": [r[1] for r in rows], "ends": np.concatenate(ends)}
    int32["rows"] = np.cumsum([0, *(len(e) for e in ends)])
    numbers = {"old": old, "new": old + 0.1, "ref": old - 0.1, "entropy": -old}
    return {k: np.asarray(v, np.int32) for k, v in int32.items()} | numbers


def work(run: Path, args: argparse.Namespace) -> None:
    parts = scoring.build(REWARDS)
    with runfolder.Status(run, args.steps) as status:
        sink, desk = FolderSink(run, status, last=args.tokens), Desk(runfolder.Control(run), status, Silent())
        (run / "train.log").write_text("loading the model\nsampling\n")
        sink(Started(0, args.steps, {}, 1000))
        sink(Evaluated(0, 16, 0.1, 0.2, 0.1, 12.0))
        status.set(state="running")
        step = 0
        try:
            for step in range(1, args.steps + 1):
                event = step_event(step, args, parts)
                _spend(event, desk, args)
                sink(event)
                status.set(step=step, memory=1e9, eta_s=(args.steps - step) / (args.rate or 10))
                if step == 3:
                    sink(Warned(3, "cut", "30 % of the answers are cut off", "--set max_tokens=128"))
                if step == args.crash_after:
                    (run / "train.log").write_text("loading the model\nCUDA error: the card fell off the bus\n")
                    os.kill(os.getpid(), signal.SIGKILL)
                desk.wait_while_paused(lambda: None)
                if desk.stop:
                    break
        except Abandoned:
            step -= 1
        runfolder.save_checkpoint(run, max(1, step), _adapter, value=0.5)
        sink(Evaluated(step, 16, 0.4, 0.7, 0.0, 10.0))
        if not desk.stop:
            runfolder.save_adapter(run, _adapter)
            sink(Saved(step, str(run / "adapter")))
        state = "stopped" if desk.stop else "finished"
        sink(Ended(step, state, desk.stop))
        status.end(state, desk.stop)
        sink.close()


def _spend(event: Step, desk: Desk, args: argparse.Namespace) -> None:
    """The step's time, in its phases; a deaf trainer looks at no command."""
    for phase, share in (("sampling", 0.6), ("scoring", 0.05), ("updating", 0.35)) if args.rate else ():
        slices = max(1, math.ceil(share / args.rate / 0.1))
        for done in range(slices):
            if args.deaf:
                desk.status.set(phase=phase, done=done, of=slices)
            else:
                desk.report(phase, done, slices)
            time.sleep(share / args.rate / slices)


def _adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 16}))
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    (folder / "state.json").write_text("{}")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    numbers = {"steps": 10, "groups": 4, "size": 8, "crash-after": 0, "tokens": 0, "seed": 0}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=0.0, help="steps a second; 0: no waiting")
    for flag in ("deaf", "poison"):
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> Path:
    args = parse(argv)
    values = {"steps": args.steps, "group_size": args.size, "prompts_per_step": args.groups, "reward": REWARDS}
    run = runfolder.create(args.run, config.build(values | {"max_tokens": 64, "seed": args.seed}).resolve())
    with runfolder.lock(run):
        work(run, args)
    return run


if __name__ == "__main__":
    main()
