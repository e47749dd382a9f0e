"""A group line as the board understands it: every field may be missing or of a wrong type, and is None then."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from minigrpo.types import has_spread
from minigrpo.ui.plain import count, number, words
from minigrpo.ui.rules import Rules

SIGNALS = ("mixed", "all_right", "all_wrong", "equal")
LARGEST = 1 << 10  # completions of a group that are looked at
_PARTS, _SPANS = 16, 1 << 14  # of a completion
_TINY = 1e-9


class Verdict(NamedTuple):
    """What one part said of a completion."""

    name: str
    value: float | None
    lenient: float | None
    counts_lenient: bool
    weight: float | None
    status: str | None
    rule: str | None
    extracted: str | None
    start: int | None  # characters of the completion that it read; both or none
    end: int | None
    note: str | None

    @property
    def counted(self) -> float | None:
        """What went into the reward, before its weight."""
        return self.lenient if self.counts_lenient and self.lenient is not None else self.value

    @property
    def share(self) -> float | None:
        """What it added to the reward; None where it failed or nobody knows."""
        if self.counted is None or self.weight is None or self.status == "failed":
            return None
        return self.counted * self.weight


class Stretch(NamedTuple):
    """Tokens that share one advantage."""

    kind: str | None
    start: int | None
    end: int | None
    share: float | None
    adv: float | None
    weight: float | None


class Answer(NamedTuple):
    """One completion of a group."""

    i: int
    text: str
    n_tok: int | None
    finish: str | None
    reward: float | None
    parts: Sequence[Verdict]
    spans: Sequence[Stretch]
    dup_of: int | None
    plan: Mapping[str, Any] | None
    best: float  # the reward of a completion that every part likes
    main: Verdict | None

    @property
    def adv(self) -> float | None:
        """The advantage of what is the answer; of several stretches without one, the farthest from 0."""
        given = [s for s in self.spans if s.adv is not None]
        answer = next((s.adv for s in given if s.kind == "answer"), None)
        return answer if answer is not None else max((s.adv for s in given if s.adv is not None), key=abs, default=None)

    @property
    def right(self) -> bool:
        return self.reward is not None and self.reward >= self.best - _TINY

    @property
    def cut(self) -> bool:
        return self.finish == "length"

    @property
    def failed(self) -> bool:
        return any(p.status == "failed" for p in self.parts)

    @property
    def unreadable(self) -> bool:
        """Whether no answer was found that counts; what a lenient part found at last was read, right or wrong."""
        main = self.main
        if main is None or main.status != "unreadable" or main.counted:
            return False
        return main.extracted is None or not main.counts_lenient

    @property
    def outcome(self) -> str:
        if self.failed:
            return "failed"
        if self.right:
            return "right"
        if self.cut:
            return "cut"
        if self.unreadable:
            return "unreadable"
        return "partly" if self.reward is not None and self.reward > 0 else "wrong"

    @property
    def idle(self) -> bool:
        """Whether its advantage moves nothing: left out of the update by the keep rule."""
        weights = [s.weight for s in self.spans if s.kind != "forced" and s.weight is not None]
        return bool(weights) and not any(weights)


class Group(NamedTuple):
    """Completions of one prompt that are compared with each other."""

    step: int
    gid: str | None
    example_id: str | None
    prompt: Sequence[Mapping[str, str]]
    gold: str | None
    mean: float | None
    std: float | None
    signal: str
    kept: bool | None
    answers: Sequence[Answer]

    @property
    def question(self) -> str:
        """What was asked last."""
        asked = [m["content"] for m in self.prompt if m["role"] == "user"] or [m["content"] for m in self.prompt]
        return asked[-1] if asked else ""


def read(line: Mapping[str, Any], rules: Rules) -> Group | None:
    """The group of a line; None where it does not say to which step it belongs."""
    step = line.get("step")
    if type(step) is not int or not 0 <= step < 1 << 31:
        return None
    listed = line.get("completions")
    answers = [_answer(i, c, rules) for i, c in enumerate(listed[:LARGEST] if isinstance(listed, list) else ())]
    return Group(
        step=step,
        gid=words(line.get("gid"), 80),
        example_id=words(line.get("example_id"), 200),
        prompt=_prompt(line.get("prompt")),
        gold=_gold(line.get("answer")),
        mean=number(line.get("mean")),
        std=number(line.get("std")),
        signal=known if (known := line.get("signal")) in SIGNALS else _signal(answers),
        kept=kept if isinstance(kept := line.get("kept"), bool) else None,
        answers=answers,
    )


def _answer(i: int, raw: Any, rules: Rules) -> Answer:
    raw = raw if isinstance(raw, dict) else {}
    text = raw.get("text") if isinstance(raw.get("text"), str) else ""
    listed = raw.get("parts")
    items = list(listed.items())[:_PARTS] if isinstance(listed, dict) else []
    parts = [_verdict(name, part, len(text), rules) for name, part in items]
    spans = raw.get("spans")
    return Answer(
        i=i,
        text=text,
        n_tok=count(raw.get("n_tok")),
        finish=words(raw.get("finish"), 20),
        reward=number(raw.get("reward")),
        parts=parts,
        spans=[_stretch(s) for s in spans[:_SPANS] if isinstance(s, dict)] if isinstance(spans, list) else [],
        dup_of=twin if (twin := count(raw.get("dup_of"))) is not None and twin < i else None,
        plan=_plain(raw["plan"]) or None if raw.get("plan") else None,
        best=sum(p.weight for p in parts if p.weight is not None and p.weight > 0) or 1.0,
        main=next((p for p in parts if p.name == rules.main), parts[0] if parts else None),
    )


def _verdict(name: str, raw: Any, length: int, rules: Rules) -> Verdict:
    get = raw.get if isinstance(raw, dict) else {}.get
    start, end = count(get("start")), count(get("end"))
    if start is None or end is None or not start <= end <= length:
        start = end = None
    return Verdict(
        name=name[:80],
        value=number(get("value")),
        lenient=number(get("lenient")),
        counts_lenient=name in rules.lenient,
        weight=number(get("weight")),
        status=words(get("status"), 20),
        rule=words(get("rule"), 80),
        extracted=words(get("extracted"), 300),
        start=start,
        end=end,
        note=words(get("note"), 500),
    )


def _stretch(raw: Mapping[str, Any]) -> Stretch:
    return Stretch(
        kind=words(raw.get("kind"), 20),
        start=count(raw.get("start")),
        end=count(raw.get("end")),
        share=number(raw.get("share")),
        adv=number(raw.get("adv")),
        weight=number(raw.get("weight")),
    )


def _prompt(raw: Any) -> list[dict[str, str]]:
    if isinstance(raw, str):
        return [{"role": "user", "content": raw}]
    messages = [m for m in raw[:100] if isinstance(m, dict)] if isinstance(raw, list) else []
    return [{"role": words(m.get("role"), 40) or "?", "content": _content(m.get("content"))} for m in messages]


def _content(raw: Any) -> str:
    """A message's text; of one in pieces, those that are text."""
    if isinstance(raw, list):
        return "\n".join(t for p in raw if isinstance(p, dict) and isinstance(t := p.get("text"), str))
    return raw if isinstance(raw, str) else ""


def _gold(raw: Any) -> str | None:
    if raw is None or isinstance(raw, str):
        return raw
    try:
        return json.dumps(raw, ensure_ascii=False)
    except RecursionError:
        return None


def _plain(raw: Any) -> dict[str, Any]:
    """The short facts of a plan: exit, thought, answer index."""
    items = list(raw.items())[:_PARTS] if isinstance(raw, dict) else []
    plain = {k[:80]: v[:200] if isinstance(v, str) else v for k, v in items}
    return {k: v for k, v in plain.items() if v is None or isinstance(v, (str, bool)) or number(v) is not None}


def _signal(answers: Sequence[Answer]) -> str:
    """As the trainer says it, where the line does not."""
    rewards = [a.reward for a in answers if a.reward is not None]
    if has_spread(rewards):
        return "mixed"
    if rewards and all(a.right for a in answers):
        return "all_right"
    return "all_wrong" if not rewards or max(rewards) <= 0 else "equal"


def spread(values: Sequence[float | None]) -> bool:
    """Whether known values differ by more than rounding."""
    return has_spread([v for v in values if v is not None and math.isfinite(v)])
