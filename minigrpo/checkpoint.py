"""What of a run goes into a checkpoint and comes back, and what the final adapter folder holds. No pickle."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.loop import Deck, Progress
from minigrpo.policy import lora
from minigrpo.policy.policy import Policy
from minigrpo.policy.prompt import Renderer, save_prompt

SCHEMA = 1


def save(folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, at: Progress) -> None:
    """Adapter, optimizer and progress. All sampling comes from (seed, step) and needs no state."""
    lora.save(policy.model, folder)
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty form
    state = optimizer.state_dict()["state"]
    tensors = {f"{i}.{key}": value for i, values in state.items() for key, value in values.items()}
    save_file(tensors, folder / "state.safetensors")
    body = {"schema": SCHEMA, **dataclasses.asdict(at)}
    (folder / "state.json").write_text(json.dumps(body), "utf-8")


def load(folder: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> Progress:
    """Put a checkpoint back, bit for bit; where the run was. Raises UserError."""
    body = json.loads((folder / "state.json").read_text("utf-8"))
    if body.pop("schema", None) != SCHEMA:
        raise UserError(f"{folder} was written by another version of minigrpo", "resume it with that version")
    lora.load_into(policy.model, folder)
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in load_file(folder / "state.safetensors").items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**{**body, "deck": Deck(**body["deck"])})


def save_adapter(folder: Path, policy: Policy, renderer: Renderer, config: Config) -> None:
    """The folder that chats elsewhere: weights, tokenizer with its template, what the prompts need, a card."""
    lora.save(policy.model, folder)
    save_prompt(folder, renderer, policy.base, policy.stop_ids)
    (folder / "README.md").write_text(_card(policy, config), "utf-8")


def _card(policy: Policy, config: Config) -> str:
    base, lora = policy.base, policy.model.peft_config["default"]
    where = f"base_model: {base.name}\n" if base.source == "hub" else ""
    return f"""---
library_name: peft
{where}tags: [lora, grpo, minigrpo]
---
A LoRA adapter trained with GRPO by minigrpo.

| | |
|---|---|
| base | {base.name} ({base.source}{" " + base.revision if base.revision else ""}), weights {base.hash[:16]} |
| task | `{config.task}` |
| reward | `{" + ".join(config.reward)}` |
| recipe | {config.recipe}: {config.steps} steps, {config.prompts_per_step} prompts x {config.group_size} completions |
| adapter | LoRA r={lora.r}, alpha={lora.lora_alpha}, learning rate {config.lr:g}, seed {config.seed} |

`minigrpo.json` holds what its prompts need: system prompt, template options, stop tokens.
"""
