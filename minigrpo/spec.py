"""Text to function: "clip(low=0.2)" is the function `clip` of a seam's module with its knobs bound.

A seam is a module; its public functions are the options, the first line of a docstring is the help, and the
keyword-only parameters are the knobs. A file of the user's own joins in as `my_file.py:brevity(limit=20)`.
"""

import ast
import functools
import hashlib
import importlib.util
import inspect
import os
import sys
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace, UnionType
from typing import Any, Literal, NamedTuple, Union

from minigrpo.errors import UserError, nearest


class Spec(NamedTuple):
    """A parsed text: an optional file of the user's, a name, and literal arguments."""

    file: str | None
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def parse(text: str) -> Spec:
    """Read "name", "name(1, knob=2)" or "file.py:name(…)"; arguments are Python literals. Raises UserError."""
    text = text.strip()
    file, name = None, text
    head, sep, tail = text.partition(".py:")
    if sep and "(" not in head:
        file, name = head + ".py", tail
    hint = "write name(knob=value), for instance clip(low=0.2, high=0.28); text goes in quotes"
    try:
        node = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"cannot read {text!r}", hint) from None
    if isinstance(node, ast.Name):
        return Spec(file, node.id, (), {})
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(k.arg for k in node.keywords)):
        raise UserError(f"cannot read {text!r}", hint)
    try:
        args = tuple(ast.literal_eval(a) for a in node.args)
        kwargs = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise UserError(
            f"cannot read the arguments of {text!r}", "arguments are literals: numbers, 'text', True, lists"
        ) from None
    if len(kwargs) != len(node.keywords):
        raise UserError(f"a knob is given twice in {text!r}", hint)
    return Spec(file, node.func.id, args, kwargs)


def build(text: str, seam: ModuleType) -> Callable[..., Any]:
    """The function that `text` names in `seam` (or in the user's file) with its knobs bound. Raises UserError."""
    return bind(parse(text), seam)


def bind(spec: Spec, seam: ModuleType, also: Sequence[str] = ()) -> Callable[..., Any]:
    """As `build`, from a parsed text; `also` are knobs that the caller takes care of, for hints."""
    functions = public(_load(spec.file) if spec.file else seam)
    if spec.name not in functions:
        what, where = seam.__name__.rsplit(".", 1)[-1].removesuffix("s"), f" in {spec.file}" if spec.file else ""
        raise UserError(f"no {what} called {spec.name!r}{where}", nearest(spec.name, functions))
    function = functions[spec.name]
    kinds = knobs(function)
    if len(spec.args) > len(kinds):
        raise UserError(f"{spec.name} takes {len(kinds)} knobs, not {len(spec.args)}", _usage(function))
    bound = dict(zip(kinds, spec.args, strict=False))
    for key, value in spec.kwargs.items():
        if key not in kinds:
            known = [*kinds, *also]
            raise UserError(f"{spec.name} has no knob {key!r}", nearest(key, known) if known else "it takes none")
        if key in bound:
            raise UserError(f"{spec.name} gets {key!r} twice", _usage(function))
        bound[key] = value
    for key, value in bound.items():
        _check_type(function, key, value)
    missing = [k for k, p in kinds.items() if p.default is p.empty and k not in bound]
    if missing:
        raise UserError(f"{spec.name} needs {missing[0]!r}", _usage(function))
    return functools.partial(function, **bound) if bound else function


def public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """A seam's options: its public functions, and those it names in __all__."""
    listed = getattr(module, "__all__", None)
    found: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        own = name in listed if listed is not None else getattr(value, "__module__", None) == module.__name__
        if own and not name.startswith("_") and inspect.isfunction(value):
            found[name] = value
    return found


def knobs(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters."""
    return {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}


def options(module: ModuleType) -> list[dict[str, Any]]:
    """[{name, help, knobs}] of a seam, for `minigrpo options`."""
    rows = []
    for name, function in sorted(public(module).items()):
        defaults = {k: None if p.default is p.empty else p.default for k, p in knobs(function).items()}
        rows.append({"name": name, "help": (inspect.getdoc(function) or "").split("\n")[0], "knobs": defaults})
    return rows


def _usage(function: Callable[..., Any]) -> str:
    return f"usage: {function.__name__}({', '.join(str(p) for p in knobs(function).values())})"


def _check_type(function: Callable[..., Any], key: str, value: Any) -> None:
    if not _fits(value, _hint(function, key)):
        raise UserError(f"{function.__name__}({key}={value!r}): wrong kind of value", _usage(function))


def _hint(function: Callable[..., Any], key: str) -> Any:
    """A knob's annotation; Any where it has none, or one that cannot be read here (a TYPE_CHECKING import)."""
    function = inspect.unwrap(function)
    try:
        own = SimpleNamespace(__annotations__={key: function.__annotations__[key]})
        return typing.get_type_hints(own, function.__globals__)[key]
    except Exception:  # an annotation is an expression: it may raise anything
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a literal fits an annotation; what is not understood fits."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, a) for a in args)
    if origin is Literal:
        return value in args
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is type(None):
        return value is None
    kind = origin or hint
    if kind in (Mapping, dict):
        return isinstance(value, dict)
    return isinstance(value, kind) if isinstance(kind, type) and kind in (str, bool, list, tuple) else True


def _load(file: str) -> ModuleType:
    """The user's file as a module in sys.modules (dataclasses look there), run once for each version of the file."""
    path = Path(os.path.abspath(Path(file).expanduser()))
    if not path.is_file():
        raise UserError(f"no such file: {file}", "give the path from the folder you are in")
    stat = path.stat()
    version = hashlib.sha256(f"{path}\n{stat.st_mtime_ns}\n{stat.st_size}".encode("utf-8", "surrogateescape"))
    name = f"minigrpo_user_{version.hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise UserError(f"cannot import {file}", "it must be a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, (Exception, SystemExit)):
            raise UserError(f"cannot import {blame(error, file)}", f"mend it; `python {file}` shows more") from None
        raise
    return module


def blame(error: BaseException, file: str) -> str:
    """An error in the user's own file, as file, line and reason."""
    path = os.path.abspath(os.path.expanduser(file))
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    reason = error.msg if isinstance(error, SyntaxError) else error
    return f"{file}{f':{line}' if line else ''}: {type(error).__name__}: {' '.join(str(reason).split())}"
