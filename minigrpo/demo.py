"""The first minute: a small model learns sums on this machine, and shows what it could do before and after."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from minigrpo import config as configs
from minigrpo import evaluate, session, sinks
from minigrpo.config import Config
from minigrpo.rewards.scoring import score
from minigrpo.rollout.engine import Sampling
from minigrpo.sinks import plain
from minigrpo.types import Example, Group

EXAMPLES = 3  # groups shown before and after
SHOWN = 4  # completions of each
WIDTH = 48  # characters of a completion


def config(steps: int, seed: int, out: str | None) -> Config:
    """What the demo trains."""
    return configs.build({
        "model": "smollm2", "task": "arithmetic(high=15, held_out=0.35)",
        "reward": ["number(lenient=True)"], "steps": steps, "seed": seed, "out": out, "prompts_per_step": 8,
        "group_size": 8, "max_tokens": 16, "eval_max_tokens": 32, "eval_n": 200, "lr": 5e-4, "save_every": 10,
    })  # fmt: skip


def run(settings: Config, screen: Console, *, command: str, offline: bool) -> tuple[Path, int, dict[str, Any] | None]:
    """Train, and tell on `screen` what changed: the run folder, the exit code, and the evaluation (None if stopped)."""
    seen: list[tuple[session.Session, list[Group]]] = []

    def before(s: session.Session) -> None:
        if s.at.step == 0:
            seen.append((s, _sample(s)))

    run, code = session.start(
        settings, sinks.ConsoleSink(screen), command=command, name="demo", offline=offline, around=before
    )
    if not seen or seen[0][0].at.step < settings.steps:
        return run, code, None
    s, groups = seen[0]
    _show(screen, groups, _sample(s))
    result = session.compared(s)
    screen.print(evaluate.table(result))
    screen.print(Text(evaluate.in_words(result, s.answers[0])), soft_wrap=True)
    _next(screen, run)
    return run, code, result


def _sample(s: session.Session) -> list[Group]:
    """Groups of held-out examples by the policy as it stands."""
    c = s.job.config
    groups = s.job.recipe.plan(
        s.engine, s.job.test[:EXAMPLES], Sampling(c.group_size, c.max_tokens, c.temperature, c.seed, 0)
    )
    return score(groups, s.job.parts)[0]


def _show(screen: Console, before: Sequence[Group], after: Sequence[Group]) -> None:
    table = Table(title="Held-out questions, some sampled answers", title_justify="left", show_lines=True)
    table.caption = "+ right, - wrong: the last number counts"
    for name in ("question", "before", "after"):
        table.add_column(name, overflow="fold")
    for b, a in zip(before, after, strict=True):
        table.add_row(Text(_question(b.example)), _answers(b), _answers(a))
    screen.print(table)


def _question(example: Example) -> str:
    return plain(str(example.prompt)) + f"\n({example.answer})"


def _answers(group: Group) -> Text:
    lines = []
    for c in group.completions[:SHOWN]:
        text = " ".join(plain(c.text).split())
        shown = (
            text if len(text) <= WIDTH else f"{text[: WIDTH // 2]} … {text[-(WIDTH // 2) :]}"
        )  # the end is what counts
        lines.append(Text.assemble(("+ ", "green") if c.reward > 0 else ("- ", "red"), shown))
    return Text("\n").join(lines)


def _next(screen: Console, run: Path) -> None:
    program = "minigrpo"
    if shutil.which(program) is None:  # its environment is not active
        program = os.path.relpath(Path(sys.executable).parent / program)
    lines = [
        f"everything is in {run}: config.yaml, events.jsonl, groups/ (every answer), checkpoints/, adapter/",
        "next:",
        f"  {program} panel   (every group of this run, its curves, and a chat with it)",
        f"  {program} chat {run}",
        f"  {program} eval {run} --task \"arithmetic(ops='-')\"",
        f'  {program} train --task "sequences()" --set steps=30',
    ]
    screen.print(Text("\n".join(lines)), soft_wrap=True)
