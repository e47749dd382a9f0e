"""Tasks: what they ask, that no seed moves a question across the split, and what they say of broken files."""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks_ground import (  # noqa: F401
    COLUMNS,
    CSV,
    GOOD,
    both,
    examples,
    words,
)

from minigrpo.errors import UserError
from minigrpo.tasks import rows
from minigrpo.types import Example


def test_first_twenty_problems_are_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(GOOD + "oops\n" * 30)
    assert len(examples(file)) == 1
    assert "and 10 more" in caplog.text
    assert "rows.jsonl:21:" in caplog.text
    assert "rows.jsonl:22:" not in caplog.text


@pytest.mark.parametrize("body", [b"", b"\n\r\n \n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_an_empty_file(body: bytes, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{ending}"
    file.write_bytes(body)
    with pytest.raises(UserError, match="no rows|no header|blank"):
        examples(file)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\n\n \n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_marks_are_accepted(
    newline: str, bom: str, last: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [json.dumps({"question": q, "answer": "é"}, ensure_ascii=False) for q in "ab"]
    (tmp_path / "rows.jsonl").write_bytes((bom + newline.join(lines) + newline * last).encode())
    table = newline.join(["question,answer", "a,é", "b,é"])
    (tmp_path / "rows.csv").write_bytes((bom + table + newline * last).encode())
    for name in ("rows.jsonl", "rows.csv"):
        assert [(e.prompt, e.answer) for e in examples(tmp_path / name)] == [("a", "é"), ("b", "é")]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_user_error(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    for ending in ("jsonl", "csv"):
        file = tmp_path_factory.mktemp("any") / f"rows.{ending}"
        file.write_bytes(b"question,answer\n" * (ending == "csv") + body)
        with contextlib.suppress(UserError):
            assert all(isinstance(e, Example) for e in examples(file))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    file = tmp_path_factory.mktemp("round") / "rows.jsonl"
    lines = [json.dumps({"question": q, "answer": a}, ensure_ascii=bool(i % 2)) for i, (q, a) in enumerate(pairs)]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [r.fields for r in rows.read(file)] == [{"question": q, "answer": a} for q, a in pairs]


@pytest.mark.parametrize(("body", "asked", "problem"), CSV)
def test_csv(body: str, asked: list[str], problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(body)
    assert [e.prompt for e in examples(file)] == asked
    assert problem in caplog.text


def test_csv_that_is_not_utf8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rows.csv").write_bytes("question,answer\ncafé,1\nb,2\n".encode("latin1"))
    assert [e.prompt for e in examples(tmp_path / "rows.csv")] == ["b"]
    assert "rows.csv:2: not UTF-8 (byte 0xE9)" in caplog.text


@pytest.mark.parametrize("header", ["question,question", "question,"])
def test_csv_header(header: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"{header}\na,b\n")
    with pytest.raises(UserError, match="rows.csv:1: "):
        examples(tmp_path / "rows.csv")


@pytest.mark.parametrize(("row", "knobs", "pair"), COLUMNS)
def test_columns_are_found(row: dict[str, Any], knobs: dict[str, str], pair: tuple[Any, Any], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    [example] = examples(file, **knobs)
    assert (example.prompt, example.answer) == pair
    assert example.id == "rows.jsonl:1"


@pytest.mark.parametrize(
    ("row", "knobs", "parts"),
    [
        ({"foo": "a", "answer": "b"}, {}, ["question", "columns: foo, answer", 'question="NAME"']),
        ({"question": "a", "bar": "b"}, {}, ["answer", "columns: question, bar", 'answer="NAME"']),
        ({"question": "a", "bar": "b"}, {"answer": "bra"}, ["'bra'", "'bar'"]),
    ],
)
def test_an_unfound_column(row: dict[str, str], knobs: dict[str, str], parts: list[str], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(UserError) as caught:
        examples(tmp_path / "rows.jsonl", **knobs)
    assert all(part in str(caught.value) for part in parts)


def test_the_choice_is_reported_once_and_the_file_read_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "minigrpo.tasks")
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"problem": f" Q{i // 2} ", "gold": i}) + "\n" for i in range(40)))
    reads: list[Path] = []
    real = rows.read
    monkeypatch.setattr(rows, "read", lambda path: reads.append(path) or real(path))
    train, test = both(f'data(path="{file}")')
    assert len(train) + len(test) == 20
    assert len(reads) == 1
    chosen = "question from 'problem', answer from 'gold'"
    assert caplog.messages == [f"rows.jsonl: {chosen}; 40 rows, 20 of them asked before"]
    file.write_text('{"problem": "new", "gold": 1}')
    assert [e.prompt for e in examples(file)] == ["new"]


def test_answers_of_several_types_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "a", "answer": "1"}\n{"question": "b", "answer": 2}\n')
    assert [e.answer for e in examples(tmp_path / "rows.jsonl")] == ["1", 2]
    assert "several types (int, str)" in caplog.text


def test_a_marked_answer_and_the_other_columns(tmp_path: Path) -> None:
    row = {"question": "q", "answer": "so 1,000 and 72\n#### 1,234,567", "level": 3}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    [example] = examples(tmp_path / "rows.jsonl")
    assert example.answer == "1234567"
    assert example.meta == {"level": 3, "solution": row["answer"]}


def test_held_out_rows_of_a_file_of_their_own(tmp_path: Path) -> None:
    for name, asked in [("a.jsonl", ["One?", "two?", "three?"]), ("b.jsonl", ["one ?", " ONE?", "four?"])]:
        (tmp_path / name).write_text("".join(json.dumps({"question": q, "answer": "x"}) + "\n" for q in asked))
    train, test = both(f'data(path="{tmp_path}/a.jsonl", test="{tmp_path}/b.jsonl")')
    assert {e.prompt for e in train} == {"two?", "three?"}
    assert {e.prompt for e in test} == {"one ?", " ONE?", "four?"}


def test_a_folder_with_its_own_split(tmp_path: Path) -> None:
    for name in ("test/rows.jsonl", "train/rows.jsonl", "train/more/rows.jsonl", "dataset_info.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"question": name, "answer": "x"}))
    train, test = both(f'data(path="{tmp_path}")')
    assert [e.prompt for e in test] == ["test/rows.jsonl"]
    assert len({e.id for e in train}) == 2
