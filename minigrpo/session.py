"""From a config to a run: everything is built here, and every event of the loop passes through here."""

import dataclasses
import datetime
import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from minigrpo import checkpoint, evaluate, runfolder, sinks, spec
from minigrpo import config as configs
from minigrpo.algo import advantage, aggregate, keep, kl, ratio, reweight, sampler, shaping, surrogate
from minigrpo.config import Config
from minigrpo.desk import Abandoned, Desk
from minigrpo.errors import RunFailed, UserError
from minigrpo.events import Ended, Evaluated, Event, Resumed, Saved, Started, Step, Warned
from minigrpo.loop import BROKEN_LIMIT, Progress, train
from minigrpo.policy import hf, prompt
from minigrpo.policy.policy import Base, Policy
from minigrpo.policy.resolve import resolve
from minigrpo.rewards import scoring
from minigrpo.rollout import plans
from minigrpo.rollout.engine import Engine
from minigrpo.tasks.load import load as load_task
from minigrpo.tasks.load import suited
from minigrpo.types import Example, Part
from minigrpo.update import Recipe

log = logging.getLogger("minigrpo.session")
MODULES = {
    "sampler": sampler, "plan": plans, "shaping": shaping, "keep": keep, "advantage": advantage, "reweight": reweight,
    "aggregate": aggregate, "ratio": ratio, "surrogate": surrogate, "kl": kl,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """What a config asks for, checked before any weights are loaded."""

    config: Config  # resolved
    recipe: Recipe
    parts: Sequence[Part]
    train: Sequence[Example]
    test: Sequence[Example]


@dataclasses.dataclass(slots=True)
class Session:
    """A run at work."""

    run: Path
    job: Job
    policy: Policy
    engine: Engine
    renderer: prompt.Renderer
    optimizer: torch.optim.Optimizer
    at: Progress
    desk: Desk
    tell: Callable[[Event], None]
    answers: list[evaluate.Answers] = dataclasses.field(default_factory=list)  # of the first and the last evaluation
    value: float | None = None  # the main score of the last evaluation, if it was after this very step


def prepare(config: Config) -> Job:
    """Recipe, rewards and tasks of a config. Raises UserError."""
    config = suited(config).resolve()
    built = {seam: spec.build(getattr(config, seam), module) for seam, module in MODULES.items()}
    recipe = Recipe(**built, beta=config.beta or 0.0)
    examples = load_task(config.task, "train", config.seed)
    test = load_task(config.eval_task or config.task, "test", config.seed)[: config.eval_n] if config.eval_n else []
    return Job(config, recipe, scoring.build(config.reward), examples, test)


def start(
    config: Config, screen: sinks.Screen, *, command: str = "", name: str = "", offline: bool = False,
    around: Callable[[Session], Any] | None = None,
) -> tuple[Path, int]:  # fmt: skip
    """Train a new run to its end; its folder and the exit code. `around` sees the session before the first step."""
    job = prepare(config)
    base = resolve(config.model, offline)  # downloads, and finds wrong names, before a folder is made
    job = dataclasses.replace(job, config=job.config.model_copy(update={"model": base.name}))
    run = runfolder.create(config.out, job.config, command=command, name=name)
    try:
        return run, _run(run, job, screen, offline, base=base, around=around)
    except BaseException:  # Ctrl-C while loading too
        if not (run / "events.jsonl").exists():
            shutil.rmtree(run, ignore_errors=True)  # made a moment ago, nothing happened in it
        raise


def resume(run: Path, screen: sinks.Screen, *, offline: bool = False) -> int:
    """Go on with a stopped or crashed run where its last checkpoint was; the exit code."""
    runfolder.read_run(run)
    job, status = prepare(configs.load(run / "config.yaml")), runfolder.read_status(run)
    if status["state"] == "finished" and status.get("step") == job.config.steps:
        log.info(
            "%s is finished: its adapter is %s; to go on, start a new run from it: --set adapter=…",
            run,
            run / "adapter",
        )
        return 0
    return _run(run, job, screen, offline)


def _run(
    run: Path, job: Job, screen: sinks.Screen, offline: bool, *, base: Base | None = None,
    around: Callable[[Session], Any] | None = None,
) -> int:  # fmt: skip
    """`base` is given for a new run; a run that goes on finds its own."""
    with runfolder.lock(run):
        found = None if base else runfolder.load_checkpoint(run)
        begun = found.step if found else 0
        if begun > job.config.steps:
            message = f"{run} has done {begun} steps already, its config.yaml asks for {job.config.steps}"
            raise UserError(message, "start a new run from its adapter: --set adapter=…")
        if not base:
            runfolder.rewind(run, found)
        with runfolder.Status(run, job.config.steps, step=begun) as status:
            file = sinks.FolderSink(run, status, screen, job.config.log_tokens)
            desk = Desk(runfolder.Control(run), status, screen)

            def tell(event: Event) -> None:
                file(event)
                screen(event)

            try:
                screen.progress(f"loading {job.config.model}")
                session = _load(run, job, offline, base, desk, tell, found)
                status.set(state="running")
                with desk.signals():
                    return _work(session, found, around)
            finally:
                screen.close()
                file.close()


def _load(
    run: Path, job: Job, offline: bool, base: Base | None, desk: Desk, tell: Callable[[Event], None],
    found: runfolder.Checkpoint | None,
) -> Session:  # fmt: skip
    config, facts = job.config, runfolder.read_run(run)
    policy = hf.load(config.model_copy(update=facts.get("computed", {})), offline, base=base)
    before = facts["base"].get("hash")
    if before and before != policy.base.hash:
        raise UserError(
            f"{run} was trained on other weights of {config.model} ({before[:12]}, now {policy.base.hash[:12]})",
            "put the former weights back, or start a new run",
        )
    vocabulary = policy.tokenizer.backend_tokenizer.to_str() if policy.tokenizer.is_fast else str(policy.tokenizer)
    runfolder.describe(
        run, base=dataclasses.asdict(policy.base), tokenizer_hash=hashlib.sha256(vocabulary.encode()).hexdigest(),
        computed={"quant": policy.quant, "dtype": hf.name_of(policy.dtype)},  # what auto meant here
    )  # fmt: skip
    renderer = make_renderer(policy, config, datetime.date.fromisoformat(facts["date"]))
    engine, notice = make_engine(policy, renderer, config)
    longest, context = config.max_prompt_tokens, policy.context
    train = prompt.fitting(job.train, renderer, longest, context, config.max_tokens)
    test = prompt.fitting(job.test, renderer, longest, context, config.answer_tokens)
    job = dataclasses.replace(job, train=train, test=test)
    optimizer = torch.optim.AdamW(policy.trainable(), lr=config.lr, weight_decay=config.weight_decay)
    at = checkpoint.load(found.path, policy, optimizer) if found else Progress()
    if len(at.deck.order) not in (0, len(train)):
        message = f"the task has {len(train)} examples now, it had {len(at.deck.order)} when the run was stopped"
        raise UserError(message, "put the former data back, or start a new run from the adapter")
    if notice:
        tell(Warned(at.step, "engine", notice, "nothing to do; only slower"))
    for reason in found.rejected if found else ():
        tell(Warned(at.step, "checkpoint", reason))
    return Session(run, job, policy, engine, renderer, optimizer, at, desk, tell)


def _work(s: Session, found: runfolder.Checkpoint | None, around: Callable[[Session], Any] | None) -> int:
    config, trainable = s.job.config, sum(p.numel() for p in s.policy.trainable())
    s.tell(Started(s.at.step, config.steps, config.model_dump(), trainable))
    if found:
        s.tell(Resumed(found.step, str(found.path)))
    try:
        if around:
            around(s)
        if s.at.step == 0:
            _evaluate(s)
        _steps(s)
    except Abandoned:
        pass
    except torch.OutOfMemoryError as error:
        c = config
        sizes = f"prompts_per_step {c.prompts_per_step} x group_size {c.group_size} x max_tokens {c.max_tokens}"
        reason = f"out of memory at {sizes}: halve one of them in a new run"
        s.tell(Ended(s.at.step, "failed", reason))
        s.desk.status.end("failed", reason)
        raise RunFailed(reason) from error
    except RunFailed as error:
        s.tell(Ended(s.at.step, "failed", str(error)))
        s.desk.status.end("failed", str(error))
        raise
    except KeyboardInterrupt:
        s.tell(Ended(s.at.step, "stopped", "interrupted"))
        raise
    except BaseException as error:
        s.tell(Ended(s.at.step, "failed", f"{type(error).__name__}: {error}"))
        raise
    return _end(s)


def _steps(s: Session) -> None:
    config = s.job.config
    for event in train(
        s.policy, s.engine, s.job.train, s.job.parts, s.job.recipe, s.optimizer, config, s.at, s.desk.report
    ):
        s.tell(event)
        if not isinstance(event, Step):
            continue
        seconds = sum(event.seconds.values()) * (config.steps - event.step)
        s.desk.status.set(step=event.step, eta_s=seconds, memory=event.metrics["memory/peak"])
        s.value, last = None, event.step == config.steps
        if (config.eval_every and event.step % config.eval_every == 0) or last:
            _evaluate(s)
        if s.at.broken >= BROKEN_LIMIT:
            continue  # the loop is about to end the run: its last good checkpoint stays the last
        s.desk.look()
        if s.desk.checkpoint or event.step % config.save_every == 0 or last:
            _save(s)
        s.desk.wait_while_paused(lambda: _save(s))
        if s.desk.stop:
            return


def _evaluate(s: Session) -> None:
    if not s.job.test:
        return
    config, part = s.job.config, s.job.parts[0]
    found = evaluate.answer(
        s.engine, s.job.test, part, config.answer_tokens, lambda done, of: s.desk.report("evaluating", done, of)
    )
    s.answers = [*s.answers[:1], found]  # the first and the last are compared
    scores = found.main(part.lenient)
    s.value = sum(scores) / len(scores)
    s.tell(Evaluated(s.at.step, len(scores), found.strict, found.lenient, found.cut, found.mean_tokens))


def _save(s: Session) -> None:
    s.desk.report("saving", 0, 1)
    path = runfolder.save_checkpoint(
        s.run, s.at.step, lambda folder: checkpoint.save(folder, s.policy, s.optimizer, s.at), value=s.value,
        keep_last=s.job.config.keep_last,
    )  # fmt: skip
    s.desk.checkpoint = False
    s.tell(Saved(s.at.step, str(path)))


def _end(s: Session) -> int:
    done = s.at.step == s.job.config.steps
    if not (done or s.at.step in (0, *runfolder.checkpoint_steps(s.run))):
        _save(s)
    if done:
        s.desk.report("saving", 0, 1)
        runfolder.save_adapter(
            s.run, lambda folder: checkpoint.save_adapter(folder, s.policy, s.renderer, s.job.config)
        )
        s.tell(Saved(s.at.step, str(s.run / "adapter")))
        if len(s.answers) == 2 and s.job.config.adapter is None:  # a fresh adapter is zero: the first were the base's
            evaluate.keep(s.run, compared(s), *s.answers, seed=s.job.config.seed)
    state, reason = ("finished", "") if done else ("stopped", f"{s.desk.stop}; go on with: minigrpo resume {s.run}")
    s.tell(Ended(s.at.step, state, reason))
    s.desk.status.end(state, reason)
    if done or s.desk.signal is None:
        return 0
    return 128 + s.desk.signal


def compared(s: Session) -> dict[str, Any]:
    """The evaluation before the first step beside that after the last, as `eval --json` prints it."""
    c = s.job.config
    return evaluate.document(str(s.run), c.eval_task or c.task, c.eval_n, s.job.parts[0], *s.answers)


def make_renderer(policy: Policy, config: Config, date: datetime.date) -> prompt.Renderer:
    return prompt.Renderer(policy.tokenizer, config.system_prompt, config.template_kwargs, date)


def make_engine(policy: Policy, renderer: prompt.Renderer, config: Config) -> tuple[Engine, str]:
    """The engine a config asks for, and a notice where `auto` had to take the slow one."""
    able = policy.native
    if config.engine == "native" and not able:
        raise UserError(
            f"the native engine cannot run {type(policy.causal_lm).__name__}", "leave engine=auto, or engine=hf"
        )
    if config.engine == "hf" or not able:
        from minigrpo.rollout.hf import HfEngine  # each engine is imported when it is asked for: one may be missing

        notice = "" if able else f"{type(policy.causal_lm).__name__} runs on the slower engine (transformers generate)"
        return HfEngine(policy, renderer), notice
    from minigrpo.rollout.native import NativeEngine

    return NativeEngine(policy, renderer), ""
