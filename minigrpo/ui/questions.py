"""Questions to ask a run in chat: those it was evaluated on, then those it was trained on, as its files have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigrpo import runfolder
from minigrpo.ui.results import answers, results

LONGEST = 8000  # characters of what is asked; a longer question is not offered


def collected(run: Path, n: int) -> list[dict[str, Any]]:
    """At most `n` different ones: {"id", "question", "gold", "before": messages that go ahead of the question}.

    The task itself is never loaded: it may be code in a stranger's folder.
    """
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for origin in (_evaluated(run), _trained(run)):
        for row in origin:
            if len(rows) >= n:
                return list(rows.values())
            size = len(row["question"]) + sum(len(m["content"]) for m in row["before"])
            if row["question"].strip() and row["gold"] is not None and size <= LONGEST:
                rows.setdefault((row["question"], len(row["before"])), row)
    return list(rows.values())


def _evaluated(run: Path) -> Iterator[dict[str, Any]]:
    for result in results(run):
        for i, row in enumerate(answers(run, result["id"])):
            yield {"id": f"{result['id']}/{i}", **_split(row["before"], row["question"]), "gold": row["gold"]}


def _trained(run: Path) -> Iterator[dict[str, Any]]:
    shards = sorted((run / "groups").glob("*.jsonl")) if not (run / "groups").is_symlink() else []
    for line in reversed(runfolder.tail(shards[-1], 4 << 20) if shards else []):
        prompt, example = line.get("prompt"), line.get("example_id")
        asked = _split([], prompt) if isinstance(prompt, str) else _split(prompt, None)
        yield {"id": str(example), **asked, "gold": line.get("answer")}


def _split(before: Any, question: str | None) -> dict[str, Any]:
    """A prompt's messages as its last question and what goes before it; no question where they are something else."""
    messages = before if isinstance(before, list) else []
    known = [
        {"role": m["role"], "content": m["content"]}
        for m in messages
        if isinstance(m, dict)
        and m.get("role") in ("system", "user", "assistant")
        and isinstance(m.get("content"), str)
    ]
    if question is not None:
        return {"question": question, "before": known}
    if len(known) != len(messages) or not known or known[-1]["role"] != "user":
        return {"question": "", "before": []}  # an example that begins the answer itself cannot be asked in a talk
    return {"question": known[-1]["content"], "before": known[:-1]}
