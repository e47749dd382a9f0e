"""The weights that learn, and what belongs to them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Base:
    """Where a base model came from, so that an adapter can say what it belongs to."""

    name: str  # as the user wrote it
    source: str  # "wheel", "hub" or "folder"
    revision: str  # the hub's commit, or the wheel's version; "" for a folder
    hash: str  # SHA-256 over the weight files (their hub blob names where these are hashes)
    path: str  # the local folder


@dataclass(slots=True)
class Policy:
    """A model with a LoRA adapter, its tokenizer, and its frozen reference."""

    model: Any  # peft.PeftModel
    tokenizer: Any
    base: Base
    device: torch.device
    dtype: torch.dtype  # of the computation; the adapter itself is fp32
    quant: str  # "nf4" or "none"
    stop_ids: frozenset[int]
    context: int  # longest sequence the model takes
