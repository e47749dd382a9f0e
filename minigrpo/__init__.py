"""GRPO for small language models on one GPU or a CPU. Names load when first used: importing this imports no torch."""

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from minigrpo.config import Config
    from minigrpo.errors import RunFailed, UserError
    from minigrpo.types import Completion, Example, Group, Score, Span

_HOMES = {
    "config": ("Config",),
    "errors": ("RunFailed", "UserError"),
    "types": ("Completion", "Example", "Group", "Score", "Span"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["Completion", "Config", "Example", "Group", "RunFailed", "Score", "Span", "UserError"]

# OpenMP's idle threads spin: beside a busy process a step takes 70 times longer. To be set before torch loads.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """A public name from the module it lives in (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'minigrpo' has no attribute {name!r}")
    return getattr(importlib.import_module(f"minigrpo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
