"""What the form holds, read as a config: mistakes by field, the command that does the same, the same as YAML."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from minigrpo import config as configs
from minigrpo import spec
from minigrpo.config import Config
from minigrpo.errors import UserError, nearest
from minigrpo.recipes import SEAMS
from minigrpo.tasks.load import suited

LONGEST = 20_000  # characters of one value; longer ones do not fit into a command
NAME = 100  # characters of a run's name; a folder's has at most 255 bytes
FLAGS = ("model", "task", "reward", "recipe", "backend", "loader")
_SPECS = ("task", "eval_task", "reward")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wish:
    """`changed` is what differs from the defaults; `config` is made of what could be read."""

    changed: dict[str, Any]
    config: Config
    name: str  # of the run; "" lets the panel choose
    errors: list[dict[str, str]]

    @property
    def file(self) -> str:
        """A YAML file that asks for the same."""
        shown = {key: getattr(self.config, key) for key in ("model", "task", "reward")} | self.changed
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)

    def arguments(self, out: Path | str | None = None) -> list[str]:
        """Those of `minigrpo` that ask for the same."""
        said = [word for key, value in self.changed.items() for word in _argument(key, value)]
        return ["train", *said, *(["--out", str(out)] if out else [])]

    def command(self, out: Path | str | None = None) -> str:
        return shlex.join(["minigrpo", *self.arguments(out)])


def read(values: Values) -> Wish:
    """Values as the form holds them: plain ones, texts as after --set, and a reward also as [text, weight]."""
    given: dict[str, Any] = {}
    errors: list[dict[str, str]] = []
    name = str(values.get("out") or "").strip()
    if wrong := _misnamed(name):
        errors.append(_error("out", wrong, "a new folder is made of that name, beside the other runs"))
    for key, value in values.items():
        if key == "out" or value in (None, "", [], {}):
            continue
        try:
            given[key] = _value(key, value)
        except UserError as error:
            errors.append(_error(key, error.message, error.hint))
    given = {key: value for key, value in given.items() if value is not None}
    return Wish(_changed(given), configs.build(given), name, errors)


def _misnamed(name: str) -> str:
    """What is wrong with the name of a run."""
    if len(name) > NAME or len(name.encode("utf-8", "replace")) > 2 * NAME:
        return f"a name of {len(name):,} characters is too long, {NAME} are many"
    if name.startswith((".", "-")) or not name.isprintable() or Path(name).name != name:
        return f"{name!r} is no plain name"
    return ""


def prefill(config: Config) -> dict[str, Any]:
    """The form's values that ask for `config` again: what differs from the defaults and from its recipe."""
    values: dict[str, Any] = {}
    for key, value in config.model_dump(exclude={"out"}).items():
        if value != Config.model_fields[key].default:
            values[key] = value
    try:
        bare = config.model_copy(update=dict.fromkeys((*SEAMS, "beta"))).resolve()
    except UserError:  # a recipe that this version does not know: the field will say so
        bare = config
    values = {k: v for k, v in values.items() if k not in (*SEAMS, "beta") or v != getattr(bare, k)}
    values["max_tokens"] = config.max_tokens  # the default depends on the task
    values["reward"] = [list(split(text)) for text in config.reward]
    return values


def split(reward: str) -> tuple[str, float | None]:
    """A reward's text and its weight, None where it says none."""
    try:
        parsed = spec.parse(reward)
    except UserError:
        return reward, None
    if not isinstance(parsed.kwargs.get("weight"), (int, float)):
        return reward, None
    weight = parsed.kwargs.pop("weight")
    return _text(parsed), weight


def _value(key: str, value: Any) -> Any:
    """One option's value, checked. Raises UserError."""
    if key not in Config.model_fields:
        raise UserError(f"no option called {key!r}", nearest(key, Config.model_fields))
    if key == "reward":
        value = [
            _weighted(each) for each in (value if isinstance(value, list) else [value]) if each not in ("", ["", None])
        ]
    for text in value if isinstance(value, list) else [value]:
        _check_text(text)
    config = configs.load(sets=[f"{key}={value}"]) if isinstance(value, str) else configs.build({key: value})
    found = getattr(config, key)
    if key == "recipe":
        config.resolve()
    for text in found if key == "reward" else [found] if key in (*_SPECS, *SEAMS) and found else []:
        spec.parse(text)
    return found


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        return
    if len(text) > LONGEST:
        raise UserError(
            f"a text of {len(text):,} characters", "save the config, put it in there, and train from the file"
        )
    if "\0" in text or not text.encode("utf-8", "replace").decode() == text:
        raise UserError("there are characters in it that are no text", "type it anew")


def _weighted(each: Any) -> Any:
    """The text of a reward that may come with its weight beside it."""
    if not (isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)):
        return each.strip() if isinstance(each, str) else each
    text, weight = each
    if weight is None:
        return text.strip()
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise UserError(f"{text}: weight {weight!r} is no number", "for instance 0.5")
    parsed = spec.parse(text)
    return _text(parsed._replace(kwargs=parsed.kwargs | {"weight": weight}))


def _text(parsed: spec.Spec) -> str:
    """The inverse of spec.parse."""
    arguments = [*map(repr, parsed.args), *(f"{key}={value!r}" for key, value in parsed.kwargs.items())]
    return f"{parsed.file + ':' if parsed.file else ''}{parsed.name}({', '.join(arguments)})"


def _changed(given: dict[str, Any]) -> dict[str, Any]:
    """In the config's order, without what is the default anyway."""
    default = configs.build({})
    changed = {k: given[k] for k in Config.model_fields if k in given and given[k] != getattr(default, k)}
    if "max_tokens" in given and "max_tokens" not in changed:
        without = suited(configs.build(changed))
        if without.max_tokens != given["max_tokens"]:
            changed["max_tokens"] = given["max_tokens"]
    return changed


def _argument(key: str, value: Any) -> list[str]:
    if key not in FLAGS:
        return ["--set", f"{key}={_literal(key, value)}"]
    flags = [[f"--{key}", each] for each in (value if isinstance(value, list) else [value])]
    return [w for flag, each in flags for w in ([f"{flag}={each}"] if each.startswith("-") else [flag, each])]


def _literal(key: str, value: Any) -> str:
    """A value as --set reads it back."""
    if Config.model_fields[key].annotation in (str, str | None):
        return str(value)
    flow = yaml.safe_dump(value, default_flow_style=True, width=1 << 30, allow_unicode=True)
    return flow.removesuffix("\n...\n").strip()


def _error(key: str, message: str, fix: str) -> dict[str, str]:
    return {"key": key, "message": message, "fix": fix}
