"""The form of a training: one field per option of the config, made of its own schema."""

from collections.abc import Mapping, Sequence
from typing import Any

from minigrpo.config import Config
from minigrpo.recipes import RECIPES

Choices = Mapping[str, Sequence[Mapping[str, str]]]  # by option: [{value, help}]

MAIN = {
    "model": "Model",
    "task": "Task",
    "reward": "Rewards",
    "steps": "Steps",
    "group_size": "Completions per prompt",
    "max_tokens": "Longest completion",
}
_SEVERAL = {"eval_task": "task"}  # whose choices they share
_BOUNDS = {"min": ("minimum", "exclusiveMinimum"), "max": ("maximum", "exclusiveMaximum")}


def fields(choices: Choices) -> list[dict[str, Any]]:
    """[{key, label, kind, choices, default, help, main, min, max}]: the main ones first, then in the config's order."""
    schemas = Config.model_json_schema()["properties"]
    made = [_field(key, schemas[key], choices.get(_SEVERAL.get(key, key), ())) for key in schemas]
    return sorted(made, key=lambda field: list(MAIN).index(field["key"]) if field["main"] else len(MAIN))


def _field(key: str, schema: dict[str, Any], offered: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    kinds = [s for s in schema.get("anyOf", [schema]) if s.get("type") != "null"]
    fixed = kinds[0].get("enum") or ([kinds[0]["const"]] if "const" in kinds[0] else [])
    fixed = [{"value": value, "help": ""} for value in fixed]
    if key == "recipe":
        fixed = [{"value": name, "help": recipe["help"]} for name, recipe in RECIPES.items()]
    field = {
        "key": key,
        "label": MAIN.get(key, key.replace("_", " ")),
        "kind": "choice" if fixed else _kind(kinds),
        "choices": fixed or list(offered),
        "default": schema.get("default"),
        "help": schema.get("description", ""),
        "main": key in MAIN,
        "whole": kinds[0].get("type") == "integer",
        **{end: next((kinds[0][n] for n in names if n in kinds[0]), None) for end, names in _BOUNDS.items()},
    }
    if key == "out":
        field |= {"label": "name of the run", "help": "a new folder among this panel's runs; default: task and time"}
    return field


def _kind(kinds: Sequence[Mapping[str, Any]]) -> str:
    if len(kinds) > 1:
        return "json"
    return {"integer": "number", "number": "number", "string": "text", "array": "list"}.get(kinds[0]["type"], "json")
