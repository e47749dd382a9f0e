"""What a run's config says about reading its groups: parsed as text, so that no file of anybody's is imported."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from minigrpo import spec
from minigrpo.errors import UserError


@dataclass(frozen=True, slots=True)
class Rules:
    """How rewards were counted, advantages taken and ratios clipped; None where the config does not say."""

    main: str | None = None  # the first reward: evaluations go by it
    kinds: tuple[tuple[str, str], ...] = ()  # name of each part, and of the function that it is
    lenient: frozenset[str] = frozenset()  # parts whose lenient value counts
    advantage: str | None = None  # the spec's text
    clip: tuple[float, float] | None = None  # bounds of the ratio
    max_tokens: int | None = None
    model: str | None = None
    task: str | None = None
    recipe: str | None = None

    @property
    def judged(self) -> Literal["strict", "lenient"]:
        """Which score of an evaluation is of what was trained: the way in which the main part counts."""
        return "lenient" if self.main in self.lenient else "strict"

    def kind(self, part: str) -> str:
        """The function behind a part: "number#2" is number."""
        return dict(self.kinds).get(part, part)


def rules(config: dict[str, Any]) -> Rules:
    """The rules of a config's raw values, whatever they are."""
    parts = _parts(config.get("reward"))
    return Rules(
        main=parts[0][0] if parts else None,
        kinds=tuple((name, kind) for name, kind, _ in parts),
        lenient=frozenset(name for name, _, lenient in parts if lenient),
        advantage=_text(config.get("advantage")),
        clip=_clip(config.get("surrogate")),
        max_tokens=limit if type(limit := config.get("max_tokens")) is int and 0 < limit < 1 << 24 else None,
        model=_text(config.get("model")),
        task=_text(config.get("task")),
        recipe=_text(config.get("recipe")),
    )


def knobs(text: str | None, name: str) -> dict[str, Any] | None:
    """The knobs of a spec that calls the built-in `name`; None where it is another function or cannot be read."""
    with suppress(UserError):
        found = spec.parse(text or "")
        if found.file is None and found.name == name and not found.args:
            return found.kwargs
    return None


def _parts(specs: Any) -> list[tuple[str, str, bool]]:
    """Name, function and leniency of each reward, named as `rewards.scoring` names them."""
    found = []
    seen: Counter[str] = Counter()
    for text in specs if isinstance(specs, list) else [specs]:
        with suppress(UserError):
            parsed = spec.parse(text if isinstance(text, str) else "")
            seen[parsed.name] += 1
            name = parsed.name if seen[parsed.name] == 1 else f"{parsed.name}#{seen[parsed.name]}"
            found.append((name, parsed.name, parsed.kwargs.get("lenient") is True))
    return found


def _clip(text: Any) -> tuple[float, float] | None:
    found = knobs(text, "clip") if isinstance(text, str) else None
    if found is None:
        return None
    low, high = (found.get(side, 0.2) for side in ("low", "high"))
    plain = all(isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < 1e6 for v in (low, high))
    return (1.0 - low, 1.0 + high) if plain else None


def _text(value: Any) -> str | None:
    return value[:300] if isinstance(value, str) else None
