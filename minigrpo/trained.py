"""Opens what was trained, a run folder or an adapter folder, to evaluate it or to chat with it."""

import datetime
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from minigrpo import config as configs
from minigrpo import runfolder, session
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.policy import hf, lora, prompt
from minigrpo.policy.policy import Policy
from minigrpo.rollout.engine import Engine
from minigrpo.tasks.load import load as load_task
from minigrpo.tasks.load import suited
from minigrpo.types import Example

log = logging.getLogger("minigrpo.trained")


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy with its trained adapter, ready to write."""

    path: Path  # of the run or of the adapter
    adapter: Path
    step: int | None  # of the checkpoint that it is; None for a final adapter
    config: Config
    policy: Policy
    engine: Engine
    renderer: prompt.Renderer


class _Found(NamedTuple):
    """What a folder says of the adapter in it."""

    config: Config
    adapter: Path
    date: datetime.date
    base_hash: str  # "" where nobody knows
    step: int | None = None


def open_trained(path: str | Path, offline: bool = False, sets: Sequence[str] = (), step: int | None = None) -> Trained:
    """What stands at `path`: a run (its final adapter, else its last checkpoint) or a PEFT folder. Raises UserError.

    `sets` are "key=value" texts over its config; `step` asks for the run's checkpoint of that step.
    """
    path = Path(path)
    found = _of_run(path, step) if (path / "run.json").exists() else _of_adapter(path, step)
    config = configs.load(None, found.config.model_dump(), list(sets))
    policy = hf.load(config.model_copy(update={"adapter": str(found.adapter)}), offline, learns=False)
    if found.base_hash and found.base_hash != policy.base.hash:
        log.warning(
            "the adapter was trained on other weights of %s (%s, now %s): its answers will differ",
            config.model, found.base_hash[:12], policy.base.hash[:12],
        )  # fmt: skip
    renderer = session.make_renderer(policy, config, found.date)
    engine, _ = session.make_engine(policy, renderer, config)
    return Trained(path, found.adapter, found.step, config, policy, engine, renderer)


def _of_run(run: Path, step: int | None) -> _Found:
    facts, config = runfolder.read_run(run), configs.load(run / "config.yaml")
    if quant := facts.get("computed", {}).get("quant"):  # on another device auto could mean another base
        config = config.model_copy(update={"quant": quant})
    date, base_hash = datetime.date.fromisoformat(facts["date"]), str(facts["base"].get("hash") or "")
    adapter = run / "adapter"
    if step is None and (adapter / "adapter_config.json").exists():
        return _Found(config, adapter, date, base_hash)
    found = runfolder.load_checkpoint(run, step)
    if found is None:
        raise UserError(
            f"{run} has not saved an adapter yet", f"wait for its first checkpoint, or: minigrpo resume {run}"
        )
    if step is None:
        log.warning("the run is not finished: this is its adapter after step %d", found.step)
    return _Found(config, found.path, date, base_hash, found.step)


def _of_adapter(folder: Path, step: int | None) -> _Found:
    if step is not None:
        raise UserError(f"{folder} is an adapter, which has no checkpoints", "give a run folder, or leave --step out")
    if not (folder / "adapter_config.json").exists():
        raise UserError(
            f"{folder} is neither a run nor an adapter", "give a folder with run.json or adapter_config.json"
        )
    kept = prompt.load_prompt(folder)
    if kept is None:
        return _Found(configs.build({"model": lora.base_name(folder)}), folder, datetime.date.today(), "")
    values = {
        "model": kept.base.name, "system_prompt": kept.system_prompt, "template_kwargs": kept.template_kwargs,
    }  # fmt: skip
    return _Found(configs.build(values), folder, kept.date, kept.base.hash)


def questions(trained: Trained, task: str, n: int) -> tuple[list[Example], int]:
    """Those of the first `n` held-out examples of a task that fit, and the completion budget. Raises UserError."""
    config = trained.config
    if task != (config.eval_task or config.task):  # another task: the run's budget was for its own
        config = suited(configs.build({**config.model_dump(exclude={"max_tokens", "eval_max_tokens"}), "task": task}))
    examples = load_task(task, "test", config.seed)[:n]
    room = config.answer_tokens
    return prompt.fitting(examples, trained.renderer, config.max_prompt_tokens, trained.policy.context, room), room
