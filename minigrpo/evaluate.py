"""Base and adapter on the same held-out examples, greedily, under the same prompt: what was really learnt."""

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from minigrpo.events import finite
from minigrpo.metrics import wilson
from minigrpo.policy.policy import Policy
from minigrpo.rewards.scoring import score
from minigrpo.rollout.engine import Engine
from minigrpo.rollout.plans import completion
from minigrpo.runfolder import durable
from minigrpo.types import Completion, Example, Group, Part, Score, mean

LOT = 64  # prompts answered at once


@dataclass(frozen=True, slots=True)
class Answers:
    """One greedy completion per example, scored by the run's first reward, which is its main one."""

    examples: Sequence[Example]
    completions: Sequence[Completion]
    scores: Sequence[Score]
    seconds: float = 0.0  # that writing and scoring took

    @property
    def strict(self) -> float:
        return mean(s.value for s in self.scores)

    @property
    def lenient(self) -> float | None:
        given = [s.lenient for s in self.scores]
        return None if None in given else mean(v for v in given if v is not None)

    @property
    def cut(self) -> float:
        return mean(float(c.finish == "length") for c in self.completions)

    @property
    def mean_tokens(self) -> float:
        return mean(len(c.ids) for c in self.completions)

    @property
    def mentions(self) -> float:
        """Share of texts in which the right answer stands as a word, wherever: what form can cost at most."""
        return mean(
            float(re.search(rf"(?<![\w.]){re.escape(str(e.answer))}(?!\w)", c.text) is not None)
            for e, c in zip(self.examples, self.completions, strict=True)
        )

    def row(self, i: int) -> dict[str, Any]:
        """One answer as it is kept."""
        score, completion = self.scores[i], self.completions[i]
        return {
            "text": completion.text, "value": score.value, "lenient": score.lenient, "status": score.status,
            "cut": completion.finish == "length",
        }  # fmt: skip

    def main(self, lenient: bool) -> list[float]:
        """Score per example: the lenient one where asked for and defined."""
        return [s.lenient if lenient and s.lenient is not None else s.value for s in self.scores]


def answer(
    engine: Engine,
    examples: Sequence[Example],
    part: Part,
    max_tokens: int,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Answers:
    """Greedy completions of the examples by the policy as it stands."""
    begun = time.monotonic()
    completions: list[Completion] = []
    scores: list[Score] = []
    for i in range(0, len(examples), LOT):
        some = examples[i : i + LOT]
        prompts = [engine.encode(e) for e in some]
        rows, _ = engine.generate(
            prompts, 1, max_tokens=max_tokens, temperature=0.0, seeds=[0] * len(some),
            progress=lambda done, i=i: report(i + done, len(examples)),  # type: ignore[misc]
        )  # fmt: skip
        groups = [
            Group(e.id, e, p, [completion(engine, r)], max_tokens) for e, p, r in zip(some, prompts, rows, strict=True)
        ]
        scored, _ = score(groups, [part])
        completions += [g.completions[0] for g in scored]
        scores += [g.completions[0].parts[part.name] for g in scored]
    return Answers(examples, completions, scores, time.monotonic() - begun)


def compare(
    policy: Policy,
    engine: Engine,
    examples: Sequence[Example],
    part: Part,
    max_tokens: int,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[Answers, Answers]:
    """The base's answers and the adapter's, in one process and in lots of the same shape."""
    with policy.bare():
        base = answer(engine, examples, part, max_tokens, lambda done, of: report(done, 2 * of))
    adapter = answer(engine, examples, part, max_tokens, lambda done, of: report(of + done, 2 * of))
    return base, adapter


def document(run: str, task: str, asked: int, part: Part, base: Answers, adapter: Answers) -> dict[str, Any]:
    """The result of an evaluation as `eval --json` prints it."""
    lenient = part.lenient and base.lenient is not None
    pair = base.main(lenient), adapter.main(lenient)

    def side(answers: Answers) -> Mapping[str, Any]:
        return {
            "strict": answers.strict, "lenient": answers.lenient, "cut": answers.cut,
            "mean_tokens": answers.mean_tokens, "interval": interval(answers.main(lenient)),
        }  # fmt: skip

    return {
        "run": run, "task": task, "n": len(base.scores), "n_asked": asked, "main": "lenient" if lenient else "strict",
        "base": side(base), "adapter": side(adapter), "paired_p": mcnemar(*pair),
    }  # fmt: skip


def interval(scores: Sequence[float]) -> list[float] | None:
    """Wilson's 95 % interval of a mean of shares; None where a score is no share."""
    return wilson(sum(scores), len(scores)) if all(0.0 <= s <= 1.0 for s in scores) else None


def mcnemar(base: Sequence[float], adapter: Sequence[float]) -> float:
    """Exact two-sided McNemar test on the examples that only one of both answered better."""
    better = sum(a > b for a, b in zip(adapter, base, strict=True))
    worse = sum(a < b for a, b in zip(adapter, base, strict=True))
    n = better + worse
    tail = sum(math.comb(n, k) for k in range(min(better, worse) + 1)) / 2**n
    return min(1.0, 2.0 * tail)


def keep(
    run: Path, result: Mapping[str, Any], base: Answers, adapter: Answers, *, seed: int, step: int | None = None
) -> Path:
    """Put a result into the run's eval/ folder, with every answer; an answer that is not JSON is kept as its text.

    `step` is that of a checkpoint, None the final adapter.
    """
    path = durable.subfolder(run, "eval") / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.json"
    answers = [
        {**question(e), "gold": e.answer, "base": base.row(i), "adapter": adapter.row(i)}
        for i, e in enumerate(base.examples)
    ]
    facts = {"t": time.time(), "step": step, "seed": seed, "seconds": base.seconds + adapter.seconds}
    kept = {**result, **facts, "answers": answers}
    durable.replace(path, json.dumps(finite(kept), indent=1, ensure_ascii=False, default=str) + "\n")
    return path


def question(example: Example) -> dict[str, Any]:
    """What an example asks, and the messages that go before it: {"question", "before"}."""
    prompt = example.prompt
    if isinstance(prompt, str):
        return {"question": prompt, "before": []}
    last = max((i for i, m in enumerate(prompt) if m["role"] == "user"), default=0)
    return {"question": prompt[last]["content"], "before": [dict(m) for m in prompt[:last]]}


def table(result: Mapping[str, Any]) -> Table:
    """Base and adapter side by side, for people."""
    found = Table(title=f"{result['n']} held-out examples, greedy", title_justify="left")
    for name in ("", "strict", "lenient", "95 % interval", "cut off", "tokens"):
        found.add_column(name, justify="left" if not name else "right")
    for side in ("base", "adapter"):
        r = result[side]
        lenient = "-" if r["lenient"] is None else f"{r['lenient']:.0%}"
        shown = "-"
        if r["interval"] is not None:
            low, high = r["interval"]
            shown = f"{low:.0%} to {high:.0%} {result['main']}"
        found.add_row(side, f"{r['strict']:.0%}", lenient, shown, f"{r['cut']:.0%}", f"{r['mean_tokens']:.1f}")
    return found


def in_words(result: Mapping[str, Any], base: Answers) -> str:
    """What the gain is made of, right answers or form, and whether it could be luck."""
    name, p = result["main"], result["paired_p"]
    before, after = result["base"][name], result["adapter"][name]
    change = f"{name}: {before:.1%} to {after:.1%}, {100 * (after - before):+.1f} points"
    if p > 0.05:
        return f"{change}: no clear difference on {result['n']} examples (p = {p:.2g}); more steps may show one."
    form = min(max(0.0, after - before), max(0.0, base.mentions - before))
    return (
        f"{change}, a clear difference (p = {p:.1g}). The base's text held the right answer somewhere in "
        f"{base.mentions:.1%} of cases, so at most {100 * form:.1f} of the points are form, the rest is right answers. "
        + (
            "Trained on lenient, the last number in the text; strict, the number alone, need not rise."
            * (name == "lenient")
        )
    )
