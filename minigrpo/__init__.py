"""GRPO for small language models on one GPU or a CPU. Names load when first used: importing this imports no torch."""

import importlib
import logging
import os
import sys
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
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
    os.environ["GOMP_SPINCOUNT"] = "1000"
    if "torch" in sys.modules and sys.platform == "linux":
        logging.getLogger("minigrpo").warning(
            "torch was imported before minigrpo: beside a busy process training on the CPU will be slow; "
            "import minigrpo first, or set GOMP_SPINCOUNT=1000 and start again"
        )


def __getattr__(name: str) -> Any:
    """A public name from the module it lives in (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'minigrpo' has no attribute {name!r}")
    return getattr(importlib.import_module(f"minigrpo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
