"""The adapter: made, loaded, checked, saved; and the frozen copy that a non-zero start needs as its reference."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file

from minigrpo.errors import UserError

BEYOND = (  # more than plain LoRA
    "use_dora", "modules_to_save", "target_parameters", "trainable_token_indices", "rank_pattern", "alpha_pattern",
    "layer_replication", "auto_mapping",
)  # fmt: skip
OTHER_BASE = "was it trained on another base, or with another lora_r?"


def fresh(model: Any, r: int, alpha: int, dropout: float, targets: str | Sequence[str], seed: int) -> PeftModel:
    """The model with a new adapter, which changes nothing yet: B is zero. A is drawn from `seed`."""
    torch.manual_seed(seed)
    wanted = targets if isinstance(targets, str) else list(targets)
    config = LoraConfig(
        r=r, lora_alpha=alpha, lora_dropout=dropout, target_modules=wanted, bias="none", task_type="CAUSAL_LM"
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise UserError(
            f"lora_targets={targets!r}: {_in_a_line(error)}", "name modules of the model, or all-linear"
        ) from None


def start_from(model: Any, folder: Path, learns: bool) -> PeftModel:
    """The model with a trained adapter; to learn on it needs a frozen copy as its reference, unless it is zero."""
    weights = check(folder)
    try:
        peft_model = PeftModel.from_pretrained(model, str(folder), is_trainable=learns)
        wanted = get_peft_model_state_dict(peft_model, save_embedding_layers=False).keys()
        if missing := sorted(wanted - weights.keys()) or sorted(k for k in weights.keys() - wanted if "lora_" in k):
            raise ValueError(f"{missing[0]} stands on one side only")  # peft only warns, and leaves zeros there
    except Exception as error:  # peft builds the layers that the folder asks for: it can raise anything
        raise UserError(f"the adapter in {folder} does not fit the model: {_in_a_line(error)}", OTHER_BASE) from None
    if learns and any(bool(torch.any(w)) for k, w in weights.items() if "lora_B" in k):
        peft_model.load_adapter(str(folder), adapter_name="reference", is_trainable=False)
        peft_model.set_adapter("default")
    return peft_model


def layers(model: PeftModel) -> list[LoraLayer]:
    """The layers that have an adapter."""
    return [m for m in model.modules() if isinstance(m, LoraLayer)]


def base_name(folder: Path) -> str:
    """The base that an adapter made elsewhere names. Raises UserError."""
    check(folder)
    name = json.loads((folder / "adapter_config.json").read_text("utf-8")).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise UserError(
            f"{folder} does not say which base it belongs to", "add base_model_name_or_path to adapter_config.json"
        )
    return name


def check(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a plain LoRA adapter folder. Raises UserError where it is broken, foreign or not finite."""
    config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    if not (config.is_file() and weights.is_file()):
        missing = weights.name if config.is_file() else config.name
        raise UserError(f"{folder} is not an adapter: no {missing}", "give a PEFT folder in safetensors format")
    try:
        kind = json.loads(config.read_text("utf-8"))
        tensors = load_file(weights)
    except Exception as error:  # safetensors raises its own kinds for each way to be broken
        raise UserError(f"cannot read the adapter in {folder}: {_in_a_line(error)}", "is the copy complete?") from None
    if (
        not isinstance(kind, dict)
        or kind.get("peft_type") != "LORA"
        or any(kind.get(k) for k in BEYOND)
        or kind.get("bias", "none") != "none"
        or not isinstance(kind.get("init_lora_weights", True), bool)  # other ways of beginning rewrite the base
        or not isinstance(kind.get("target_modules"), list)  # a pattern of a stranger's can run for ever
        or (isinstance(kind.get("r"), int) and not 0 < kind["r"] <= 1024)
    ):
        raise UserError(f"{folder} is not a plain LoRA adapter", "adapters of other kinds are not supported")
    if not tensors:
        raise UserError(f"the adapter in {folder} is empty", "is the copy complete?")
    if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
        raise UserError(f"the adapter in {folder} holds numbers that are not finite", "take an earlier checkpoint")
    return tensors


def load_into(model: PeftModel, folder: Path) -> None:
    """Put a checkpoint's weights into the adapter that learns, bit for bit. Raises UserError where shapes differ."""
    tensors = check(folder)
    own = {k: p for k, p in model.named_parameters() if p.requires_grad}
    if len(own) != len(tensors):
        raise UserError(f"{folder} has {len(tensors)} adapter tensors, the model {len(own)}", OTHER_BASE)
    try:
        result = set_peft_model_state_dict(model, tensors, adapter_name="default")
    except RuntimeError as error:
        raise UserError(f"the adapter in {folder} does not fit: {_in_a_line(error)}", OTHER_BASE) from None
    if result.unexpected_keys:
        raise UserError(f"{folder} holds tensors the model has no place for", OTHER_BASE)


def save(model: PeftModel, folder: Path) -> None:
    """Write the adapter that learns as a flat PEFT folder (safetensors)."""
    model.save_pretrained(str(folder), selected_adapters=["default"], save_embedding_layers=False)


def _in_a_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
