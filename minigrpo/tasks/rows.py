"""Reading rows from JSONL, CSV and parquet, with file and line in every problem; a broken row stops no other."""

import csv
import importlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from minigrpo.errors import UserError

MAX_LINE = 1_000_000
MAX_FILE = 2_000_000_000
MAX_DEPTH = 32
MAX_DIGITS = 300  # a longer integer is no answer, and float() of it overflows


class Row(NamedTuple):
    """One row: its line in the file (its number in a parquet file), and its fields, or what is wrong with it."""

    line: int
    fields: dict[str, Any]
    problem: str = ""


class _Bad(ValueError):
    """What is wrong with a row, in words."""


def read(path: Path) -> list[Row]:
    """All rows of a file, broken ones with their problem. Raises UserError where the file itself cannot be read."""
    readers = {".csv": _csv, ".tsv": _csv, ".parquet": _parquet, ".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _jsonl}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"cannot read {path.name}: unknown kind of file", f"known: {', '.join(readers)}")
    try:
        if path.stat().st_size > MAX_FILE:
            raise UserError(f"{path} is larger than 2 GB", "split it, or give a part of it")
        return list(reader(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "check path and permissions") from None


def _jsonl(path: Path) -> Iterator[Row]:
    # surrogateescape keeps bytes that are not UTF-8 as marks, so one of them spoils its own line only
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        number = 0
        while raw := file.readline(MAX_LINE + 1):
            number += 1
            if len(raw) > MAX_LINE and not raw.endswith("\n"):
                while raw and not raw.endswith("\n"):
                    raw = file.readline(MAX_LINE)
                yield Row(number, {}, "longer than 1 MB")
                continue
            if number == 1 and raw.lstrip().startswith("["):
                hint = f"make lines of it: jq -c '.[]' {path.name} > rows.jsonl"
                raise UserError(f"{path.name} is one JSON list, not one object a line", hint)
            if raw.strip():
                yield _json_row(number, raw)


def _json_row(number: int, raw: str) -> Row:
    line = raw.rstrip()  # else an error at its end would be counted on the next line
    try:
        _check_utf8(line)
        fields = json.loads(line, object_pairs_hook=_object, parse_int=_integer)  # what cannot be seen afterwards
        if not isinstance(fields, dict):
            raise _Bad("not an object: a row is {…}")
        _check(fields)
    except json.JSONDecodeError as error:
        unclosed = line.lstrip().startswith("{") and (not line.endswith("}") or error.pos >= len(line))
        cut = unclosed and not raw.endswith("\n")
        where = f"not valid JSON at column {error.colno}"
        return Row(number, {}, "file ends in the middle of a record" if cut else where)
    except RecursionError:
        return Row(number, {}, f"nested deeper than {MAX_DEPTH}")
    except _Bad as problem:
        return Row(number, {}, str(problem))
    return Row(number, fields)


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        first = file.readline(MAX_LINE)
        file.seek(0)
        comma = "\t" if path.suffix.lower() == ".tsv" else ";" if ";" in first and "," not in first else ","
        table = csv.reader(file, delimiter=comma, strict=True)
        rows = _csv_rows(table)
        _, header, problem = next(rows, (1, [], "no header"))
        if problem or len(set(header)) < len(header) or not all(name.strip() for name in header):
            problem = problem or "a column name is blank or given twice"
            raise UserError(f"{path.name}:1: {problem}", "the first line names the columns")
        for line, cells, problem in rows:
            if not problem and len(cells) != len(header):
                problem = f"{len(cells)} fields, the header has {len(header)}"
            yield Row(line, {}, problem) if problem else Row(line, dict(zip(header, cells, strict=True)))


def _csv_rows(table: Any) -> Iterator[tuple[int, list[str], str]]:
    """(line, cells, problem) of each row that is not blank."""
    while True:
        line = table.line_num + 1
        try:
            cells = next(table)
            _check_utf8("".join(cells))
            _check(cells)
        except StopIteration:
            return
        except csv.Error as error:
            cut = "unexpected end of data" in str(error)
            yield line, [], "file ends in the middle of a record" if cut else f"not valid CSV: {error}"
        except _Bad as problem:
            yield line, [], str(problem)
        else:
            if any(cell.strip() for cell in cells):
                yield line, cells, ""


def _parquet(path: Path) -> Iterator[Row]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(f"reading {path.name} needs pyarrow", 'pip install "minigrpo[data]"') from None
    try:
        with parquet.ParquetFile(path) as file:
            fields = [row for batch in file.iter_batches() for row in batch.to_pylist()]
    except (ValueError, RuntimeError, OSError) as error:  # pyarrow's own errors are of these kinds
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path.name} cannot be read as parquet: {reason}", "write the file anew") from None
    for number, row in enumerate(fields, 1):
        try:
            _check(row)
        except _Bad as problem:
            yield Row(number, {}, str(problem))
        else:
            yield Row(number, row)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Bad(f"key {next(n for n in names if names.count(n) > 1)!r} is given twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Bad(f"a number of {len(digits)} digits")
    return int(digits)


def _check_utf8(text: str) -> None:
    """Marks left by surrogateescape, told from the surrogates of a \\ud800 escape by coming before the JSON is read."""
    if not text.isascii() and (byte := next((ord(c) - 0xDC00 for c in text if "\udc80" <= c <= "\udcff"), None)):
        raise _Bad(f"not UTF-8 (byte 0x{byte:02X}); convert with: iconv -f latin1 -t utf8")


def _check(value: Any, depth: int = 1) -> None:
    """What no prompt or answer can hold, at any depth."""
    if isinstance(value, str):
        if "\0" in value:
            raise _Bad("a NUL byte in the text")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise _Bad("half of a surrogate pair in the text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _Bad(f"the number is {value}")
    elif isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise _Bad(f"nested deeper than {MAX_DEPTH}")
        inner: Iterable[Any] = [*value, *value.values()] if isinstance(value, dict) else value
        for item in inner:
            _check(item, depth + 1)
