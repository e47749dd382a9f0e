"""A reward for the layout only: thinking and answer in their places, whatever they say."""

from collections.abc import Mapping
from typing import Literal

from minigrpo.rewards import extract
from minigrpo.types import Completion, Example, Score

Style = Literal["tags", "think_answer", "think"]
_THINK = ["<think>", "</think>"]
_TAGS = [*_THINK, "<answer>", "</answer>"]


def format(completion: Completion, example: Example, *, style: Style = "tags") -> Score:
    """1 for one <think> block, then one <answer> block that is not blank, and only white space outside; else 0.

    "think_answer" is another name of "tags"; "think" asks for one think block at the start, then text. An example
    whose answer is {"format": style} chooses the style itself.
    """
    if isinstance(example.answer, Mapping) and "format" in example.answer:
        style = example.answer["format"]
    if style not in ("tags", "think_answer", "think"):
        raise ValueError(f"no style called {style!r}")
    head = extract.prefill(example.meta)
    head = head[max(0, head.rfind("<think>")) :] if "<think>" in head else ""
    full = head + completion.text
    # no pattern runs over the body: counting and finding are linear and cannot walk across a second block
    wrong = _wrong(full, _THINK if style == "think" else _TAGS)
    if wrong:
        return Score(0.0, rule=style, note=wrong)
    start = full.find("</think>") + len("</think>") if style == "think" else full.find("<answer>") + len("<answer>")
    end = len(full) if style == "think" else full.find("</answer>")
    answer = full[start:end].strip()
    if not answer:
        return Score(0.0, rule=style, note="the answer is blank")
    start = full.find(answer, start) - len(head)
    return Score(1.0, None, "ok", style, answer, max(0, start), max(0, start + len(answer)))


def _wrong(full: str, tags: list[str]) -> str:
    """What is wrong with the tags, in words; empty where each stands once, in order, with nothing outside."""
    for tag in tags:
        if full.count(tag) != 1:
            return f"{full.count(tag)} times {tag}, not once"
    places = [full.find(tag) for tag in tags]
    if places != sorted(places):
        return "the tags are out of order"
    outside = [full[: places[0]]]
    if len(tags) == 4:
        outside += [full[places[1] + len(tags[1]) : places[2]], full[places[3] + len(tags[3]) :]]
    return "text outside the tags" if any(map(str.strip, outside)) else ""
