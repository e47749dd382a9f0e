"""The command line: thin verbs over the rooms. stdout carries results; with --json exactly one document."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from minigrpo import __version__, exits
from minigrpo.errors import UserError

app = typer.Typer(
    add_completion=False, invoke_without_command=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Teach a small language model with GRPO, on one GPU or none.",
)  # fmt: skip

Run = Annotated[Path, typer.Argument(help="a run folder")]
Trained = Annotated[Path, typer.Argument(metavar="RUN_OR_ADAPTER", help="a run folder, or a PEFT adapter folder")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout, all else on stderr")]
Checkpoint = Annotated[
    int | None, typer.Option("--step", min=1, help="the run's checkpoint of this step; default: its final adapter")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="any option of the config; repeatable")
]


def main() -> int:
    """The program `minigrpo`; its exit code."""
    return exits.run(app)


@app.callback()
def _options(
    context: typer.Context,
    offline: Annotated[bool, typer.Option("--offline", help="never reach for the network")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.exceptions.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.exceptions.Exit(2)
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported, which reads it once
        os.environ["MINIGRPO_OFFLINE"] = "1"


def _offline() -> bool:
    return os.environ.get("MINIGRPO_OFFLINE") == "1"  # HF_HUB_OFFLINE is the hub's, and smollm2 does not lie there


def _screen(as_json: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=as_json)


def _print(document: Any) -> None:
    from minigrpo.events import finite

    print(json.dumps(finite(document)))  # in ASCII: one line and readable in every encoding


@app.command()
def demo(
    steps: Annotated[int, typer.Option(min=1, help="optimizer updates")] = 36,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[str | None, typer.Option(help="the run folder; default runs/demo-<time>")] = None,
    no_panel: Annotated[bool, typer.Option("--no-panel", help="without the web panel beside it")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="only play a recorded run, in the panel")] = False,
    as_json: Json = False,
) -> int:
    """A real 135M model learns sums in a few minutes; see it before and after."""
    from minigrpo.ui import beside

    screen = _screen(as_json)
    if replay:
        beside.replay(Path(out or "runs"), screen, _print if as_json else None)
        return 0
    from minigrpo import demo as it

    settings, command = it.config(steps, seed, out), shlex.join(sys.argv)
    with beside.panel(Path(out or "runs/demo").parent, screen, no_panel) as stay:
        run, code, result = it.run(settings, screen, command=command, offline=_offline())
        if code == 0 and not as_json:
            stay()
    return _done(run, code, as_json, result)


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="options in a file")] = None,
    model: Annotated[str | None, typer.Option(help="smollm2, a hub id, or a folder")] = None,
    task: Annotated[str | None, typer.Option(help="what is asked: a task spec")] = None,
    reward: Annotated[list[str] | None, typer.Option(help="what is good: a reward spec; repeatable")] = None,
    recipe: Annotated[str | None, typer.Option(help="which paper; see: minigrpo options")] = None,
    backend: Annotated[str | None, typer.Option(help="whose loop trains")] = None,
    loader: Annotated[str | None, typer.Option(help="who loads the weights")] = None,
    sets: Sets = None,
    out: Annotated[str | None, typer.Option(help="the run folder; default runs/<recipe>-<time>")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="print the resolved config and stop")] = False,
    no_probe: Annotated[bool, typer.Option("--no-probe", hidden=True)] = False,
    as_json: Json = False,
) -> int:
    """Train a new run. Options: file < flags < --set."""
    from minigrpo import config as configs

    values = {
        "model": model, "task": task, "reward": reward, "recipe": recipe, "backend": backend, "loader": loader,
        "out": out,
    }  # fmt: skip
    settings = configs.load(config, values, sets)
    if explain:
        from minigrpo.tasks.load import suited

        resolved = suited(settings).resolve()
        if as_json:
            _print(resolved.model_dump())
        else:
            print(configs.dump(resolved), end="")
        return 0
    from minigrpo import session, sinks

    screen = sinks.ConsoleSink(_screen(as_json))
    run, code = session.start(settings, screen, command=shlex.join(sys.argv), offline=_offline())
    return _done(run, code, as_json)


@app.command()
def resume(run: Run, as_json: Json = False) -> int:
    """Go on with a stopped or crashed run."""
    from minigrpo import session, sinks

    code = session.resume(run, sinks.ConsoleSink(_screen(as_json)), offline=_offline())
    return _done(run, code, as_json)


def _done(run: Path, code: int, as_json: bool, result: Any = None) -> int:
    """Prints what --json promises at the end of a training: its result, else the run as `runs` lists it."""
    from minigrpo import runfolder

    if as_json:
        _print(result or runfolder.row(run))
    return code


@app.command("eval")
def evaluation(
    run: Trained,
    task: Annotated[str | None, typer.Option(help="a task spec; default: the run's")] = None,
    reward: Annotated[str | None, typer.Option(help="a reward spec; default: the run's first")] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="held-out examples at most")] = 200,
    step: Checkpoint = None,
    sets: Sets = None,
    as_json: Json = False,
) -> int:
    """Base and adapter on the same held-out examples: greedy, same prompt, same limit."""
    from minigrpo import evaluate, sinks, trained
    from minigrpo.rewards import scoring

    if task is None and not (run / "run.json").exists() and (run / "adapter_config.json").exists():
        raise UserError(f"{run} does not say what it was trained on", "add --task, and --reward if it is no number")
    screen = sinks.ConsoleSink(_screen(as_json=True))
    screen.progress(f"loading {run}")
    it = trained.open_trained(run, _offline(), sets or [], step)
    task = task or it.config.eval_task or it.config.task
    part = scoring.build([reward or it.config.reward[0]])[0]
    examples, room = trained.questions(it, task, n)
    base, adapter = evaluate.compare(
        it.policy, it.engine, examples, part, room, lambda done, of: screen.progress("evaluating", done, of)
    )
    screen.close()
    result = evaluate.document(str(run), task, n, part, base, adapter)
    if (run / "run.json").exists():
        evaluate.keep(run, result, base, adapter, step=it.step, seed=it.config.seed)
    if as_json:
        _print(result)
        return 0
    _screen().print(evaluate.table(result))
    print(evaluate.in_words(result, base))
    return 0


@app.command()
def chat(
    run: Trained,
    prompt: Annotated[str | None, typer.Option(help="ask this once, instead of a conversation")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="length of an answer")] = 256,
    step: Checkpoint = None,
    as_json: Json = False,
) -> int:
    """Talk to base and adapter side by side."""
    from minigrpo import chat as it
    from minigrpo import trained
    from minigrpo.sinks import ConsoleSink, plain

    if as_json and prompt is None:
        raise UserError("--json needs --prompt", "a conversation is not one document")
    screen = ConsoleSink(_screen(as_json=True))
    screen.progress(f"loading {run}")
    opened = trained.open_trained(run, _offline(), step=step)
    screen.close()
    if prompt is None:
        print("base and adapter each keep their own conversation; an empty line starts afresh, Ctrl-D ends")
        it.converse(
            opened, lambda: input("you      > "), lambda name, text: print(f"{name:8} > {plain(text)}"), max_tokens
        )
        return 0
    answers = it.once(opened, prompt, max_tokens)
    if as_json:
        _print(answers)
    else:
        print(f"base     > {plain(answers['base'])}\nadapter  > {plain(answers['adapter'])}")
    return 0


@app.command()
def panel(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="a folder of runs, or a run")] = Path("runs"),
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="default: 7860, or the next free one")] = None,
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    auth: Annotated[bool, typer.Option("--auth", help="with a password: $MINIGRPO_PASSWORD, or typed in")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="only look: no control, training or chat")] = False,
    with_stdin: Annotated[bool, typer.Option("--with-stdin", hidden=True)] = False,
    as_json: Json = False,
) -> int:
    """Watch, steer and compare runs in the browser."""
    from minigrpo.ui import panel as it

    password, until = it.asked_password() if auth else None, it.stdin_ends if with_stdin else None
    tell = _print if as_json else it.tell
    it.serve(folder, host=host, port=port, password=password, read_only=read_only, ready=tell, until=until)
    return 0


@app.command()
def runs(folder: Annotated[Path, typer.Argument(metavar="[DIR]")] = Path("runs"), as_json: Json = False) -> int:
    """List the runs in a folder."""
    from minigrpo import runfolder, show

    found = runfolder.runs(folder)
    if as_json:
        _print(found)
    else:
        _screen().print(show.listing(found))
    return 0


@app.command("show")
def show_run(run: Run, as_json: Json = False) -> int:
    """A run at a glance: state, last step, evaluations, warnings."""
    from minigrpo import runfolder, show

    found = runfolder.summary(run)
    if as_json:
        _print(show.document(found))
    else:
        print(show.in_words(found))
    return 0


@app.command()
def options(as_json: Json = False) -> int:
    """Every task, reward, algorithm part and recipe that can be named."""
    from minigrpo import show

    found = show.options()
    if as_json:
        _print(found)
    else:
        print(show.options_in_words(found))
    return 0


@app.command()
def doctor(as_json: Json = False) -> int:
    """Versions, device, threads, and what to mend."""
    from minigrpo import doctor as it
    from minigrpo import show

    found = it.examine()
    if as_json:
        _print(found)
    else:
        print(show.health(found))
    return 0
