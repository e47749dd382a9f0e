"""Plain text for people: lists of runs, a run at a glance, the options, the machine's health."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from minigrpo import tasks
from minigrpo.recipes import RECIPES
from minigrpo.rewards import scoring
from minigrpo.sinks import duration, plain
from minigrpo.spec import options as of_module

ENGINES = {
    "auto": "native where it can run the model, else hf",
    "native": "prompts read once, slots written in place, finished rows dropped",
    "hf": "transformers generate: the slow oracle",
}


def listing(runs: Sequence[Mapping[str, Any]]) -> Table:
    """A line per run."""
    table = Table(box=None)
    for name in ("run", "state", "step", "reward", "signal", "model", "recipe"):
        table.add_column(name, overflow="fold")
    for r in runs:
        numbers = [_number(r["reward"], "{:.2f}"), _number(r["signal"], "{:.0%}")]
        cells = [r["name"], r["state"], f"{r['step']}/{r['max_steps']}", *numbers, r["model"], r["recipe"]]
        table.add_row(*(Text("-" if c is None else plain(str(c))) for c in cells))
    if not runs:
        table.caption = "no runs here yet; make one: minigrpo demo"
    return table


def document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """`show --json`."""
    findings = [{k: w[k] for k in ("name", "message", "fix")} for w in summary["warnings"]]
    kept = {k: v for k, v in summary.items() if k != "warnings"}
    return {**kept, "findings": findings}


def in_words(summary: Mapping[str, Any]) -> str:
    """`show` for people."""
    lines = [f"{summary['run']}: {summary['state']}, step {summary['step']} of {summary['max_steps']}"]
    if summary["reason"]:
        lines.append(f"  because: {summary['reason']}")
    if summary["eta_s"] and summary["state"] == "running":
        lines.append(f"  about {duration(summary['eta_s'])} left")
    if m := summary["metrics"]:
        names = ("reward/mean", "group/signal", "length/mean", "length/cut", "policy/kl", "policy/entropy")
        lines.append(
            "  last step: " + ", ".join(f"{n} {m[n]:.3g}" for n in names if isinstance(m.get(n), (int, float)))
        )
    for name in ("start", "end"):
        if e := summary[name]:
            scores = ", ".join(f"{k} {e[k]:.0%}" for k in ("strict", "lenient") if e.get(k) is not None)
            lines.append(f"  evaluated after step {e['step']} on {e['n']} held-out examples: {scores}")
    for w in summary["warnings"]:
        lines.append(f"  warning after step {w['step']}: {w['message']}" + (f" ({w['fix']})" if w["fix"] else ""))
    if summary["adapter"]:
        lines.append(f"  adapter: {summary['adapter']}")
    elif summary["state"] in ("stopped", "crashed", "failed"):
        lines.append(f"  go on with: minigrpo resume {summary['run']}")
    return plain("\n".join(lines)).replace("\n    ", "\n")


def options() -> dict[str, list[dict[str, Any]]]:
    """{seam: [{name, help, knobs}]} for every seam, and the recipes."""
    from minigrpo.session import MODULES

    found: dict[str, list[dict[str, Any]]] = {"task": of_module(tasks), "reward": scoring.options()}
    found |= {seam: of_module(module) for seam, module in MODULES.items()}
    found["engine"] = [{"name": n, "help": h, "knobs": {}} for n, h in ENGINES.items()]
    found["recipe"] = [
        {"name": n, "help": r["help"], "knobs": {k: v for k, v in r.items() if k != "help"}} for n, r in RECIPES.items()
    ]
    return found


def options_in_words(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = []
    for seam, rows in found.items():
        lines.append(seam)
        for row in rows:
            knobs = ", ".join(f"{k}={v!r}" if v is not None else k for k, v in row["knobs"].items())
            lines.append(
                f"  {row['name']}({knobs})"
                if seam not in ("engine", "recipe")
                else f"  {row['name']}  {knobs}".rstrip()
            )
            lines.append(f"      {row['help']}")
    return "\n".join(lines)


def health(found: Mapping[str, Any]) -> str:
    """`doctor` for people."""
    device = found["device"]
    lines = ["  ".join(f"{k} {v}" for k, v in found["versions"].items() if v)]
    lines.append(
        f"trains on {device['kind']} ({device['name']}), {device['memory'] / 2**30:.0f} GiB, in {device['dtype']}, "
        f"base weights {'in 4 bits' if device['quant'] == 'nf4' else 'not quantised'}, {device['threads']} threads"
    )
    for f in found["findings"]:
        lines += [f"warning: {f['message']}", f"    fix: {f['fix']}"]
    return "\n".join([*lines, "ready" if not found["findings"] else ""]).rstrip()


def _number(value: Any, form: str) -> str:
    return form.format(value) if isinstance(value, (int, float)) else "-"
