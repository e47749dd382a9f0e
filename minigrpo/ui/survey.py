"""What the form has to offer on this machine, asked once of a process of its own: the answer takes torch to find."""

import inspect
import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from minigrpo import spec
from minigrpo.ui import child
from minigrpo.ui.presets import PRESETS

LIMIT = 300.0  # seconds; a cold disk reads torch slowly


class Survey:
    """{"choices", "device", "weights"} once `begin` has found them. `found` is None until then, {} in vain."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._begun = False
        self.found: dict[str, Any] | None = None

    def begin(self) -> None:
        """Starts the search, once."""
        with self._guard:
            if not self._begun:
                threading.Thread(target=self._search, name="survey", daemon=True).start()
            self._begun = True

    def _search(self) -> None:
        try:
            self.found = child.ask("minigrpo.ui.survey", None, LIMIT)
        except (OSError, child.NoAnswer):
            self.found = {}  # fields without suggestions are fields still


def search() -> dict[str, Any]:
    """Imports torch."""
    from minigrpo import doctor, rewards, session, tasks

    modules = {"task": tasks, "reward": rewards, **session.MODULES}
    choices = {key: _options(module) for key, module in modules.items()}
    choices["model"] = [{"value": p["values"]["model"], "help": p["name"]} for p in PRESETS[1:]]
    health = doctor.examine()
    return {"choices": choices, "device": health["device"] | {"findings": health["findings"]}, "weights": _weights()}


def _options(module: ModuleType) -> list[dict[str, str]]:
    return [{"value": _call(name, f), "help": _meaning(f)} for name, f in sorted(spec.public(module).items())]


def _call(name: str, function: Callable[..., Any]) -> str:
    """A text to begin with: what must be given is left blank."""
    needed = (knob for knob, p in spec.knobs(function).items() if p.default is p.empty)
    blanks = ", ".join(f"{knob}=''" for knob in needed)
    return f"{name}({blanks})"


def _meaning(function: Callable[..., Any]) -> str:
    kinds = spec.knobs(function).values()
    knobs = f" Knobs: {', '.join(map(str, kinds))}." if kinds else ""
    return (inspect.getdoc(function) or "").split("\n")[0] + knobs


def _weights() -> int | None:
    """Bytes of smollm2's weights on this disk; None where they were not fetched yet."""
    from minigrpo.policy import resolve, smollm2

    try:
        return os.path.getsize(resolve.cache() / "models" / smollm2.FOLDER / "model.safetensors")
    except OSError:
        return None


if __name__ == "__main__":
    child.serve(lambda _: search())
