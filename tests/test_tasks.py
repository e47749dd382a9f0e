"""Tasks: what they ask, that no seed moves a question across the split, and what they say of broken files."""

import contextlib
import json
import logging
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrpo import rewards, spec, tasks
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.rewards import number, text
from minigrpo.tasks import hub, prompt, rows, sources, split
from minigrpo.tasks.load import SHORT, load
from minigrpo.types import Completion, Example

ROOT = Path(__file__).parents[1]
GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"


def said(words: str) -> Completion:
    return Completion([], words, [], "stop", [])


def both(task: str, seed: int = 0) -> tuple[list[Example], list[Example]]:
    return load(task, "train", seed), load(task, "test", seed)


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_arithmetic_by_default_is_every_sum_once() -> None:
    train, test = both("arithmetic()")
    assert len(train) >= 150
    assert len(test) >= 64
    assert len(train) + len(test) == 400
    assert len({e.prompt for e in train + test}) == 400
    example = next(e for e in train + test if e.id == "3+5")
    assert example.prompt == "3 + 5 = ? Reply with only the number."
    assert example.answer == "8"


@pytest.mark.parametrize("ops", ["+", "-", "*", "x", "+-*", "x+"])
def test_both_orders_of_a_question_are_on_one_side(ops: str) -> None:
    train, test = both(f'arithmetic(ops="{ops}", low=-3, high=12)')
    sides = [{frozenset((e.id, *_swapped(e.id))) for e in part} for part in (train, test)]
    assert not sides[0] & sides[1]


def _swapped(id: str) -> list[str]:
    sign = next((s for s in "+*x" if s in id), None)
    return ["".join((b, sign, a)) for a, _, b in [id.partition(sign)]] if sign else []


@pytest.mark.parametrize("task", ["arithmetic()", "sequences()", 'data(path="data/capitals.jsonl")'])
def test_a_seed_orders_and_nothing_else(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    one, same, other = both(task, 1), both(task, 1), both(task, 2)
    assert one == same
    for mine, theirs in zip(one, other, strict=True):
        assert mine != theirs
        assert sorted(mine, key=lambda e: e.id) == sorted(theirs, key=lambda e: e.id)


def test_large_numbers_are_drawn_not_listed() -> None:
    train, test = both("arithmetic(low=0, high=999999999, n=200)")
    assert len(train) + len(test) == 200
    assert 20 < len(test) < 90
    assert len(load('arithmetic(ops="+-*", low=-500000000, high=500000000, n=8, held_out=0.0)', "train", 0)) == 8


def test_a_drawn_question_keeps_its_side() -> None:
    seen: dict[str, str] = {}
    for seed in range(5):
        for name in ("train", "test"):
            for example in load("arithmetic(high=40, n=400)", name, seed):
                assert seen.setdefault(example.id, name) == name


def test_length_does_not_move_a_sequence_across() -> None:
    short = {e.id.rsplit(",", 1)[0] for e in load("sequences(length=5)", "test", 0)}
    assert short == {e.id for e in load("sequences(length=4)", "test", 0)}


@pytest.mark.parametrize(
    ("kinds", "terms"),
    [("arithmetic", "2,5,8,11,14 17"), ("geometric", "3,6,12,24,48 96"), ("mixed", "1,3,7,15,31 63")],
)
def test_sequences_follow_their_rule(kinds: str, terms: str) -> None:
    train, test = both(f'sequences(kinds="{kinds}")')
    assert terms in {f"{e.id} {e.answer}" for e in train + test}


def test_arithmetic_answers() -> None:
    found = {e.id: e.answer for e in sum(both('arithmetic(ops="+-x", low=-2, high=3)'), [])}
    assert found["-2-3"] == "-5"
    assert found["3--2"] == "5"
    assert found["-2x3"] == "-6"
    assert found["2+3"] == "5"


WRONG = [
    ("arithmetic(ops='/')", "ops"),
    ("arithmetic(ops='')", "ops"),
    ("arithmetic(ops='++')", "ops"),
    ("arithmetic(ops='x*')", "ops"),
    ("arithmetic(low=3, high=2)", "low=3"),
    ("arithmetic(high=10000000000)", "high"),
    ("arithmetic(ops='+-*', low=-1000000000, high=1000000000)", "no further apart"),
    ("arithmetic(n=0)", "n=0"),
    ("arithmetic(held_out=1.0)", "held_out"),
    ("arithmetic(held_out=-0.1)", "held_out"),
    ("arithmetic(prompt='What is {a} plus?')", "{op}"),
    ("sequences(length=2)", "length"),
    ("sequences(kinds='prime')", "prime"),
    ("sequences(kinds='')", "no training"),
    ("data()", "path"),
    ("data(path='nowhere.jsonl')", "nowhere.jsonl"),
    ("data(path='data/capitals.jsonl', prompt='hello')", "{question}"),
    ("data(path='data/README.md')", "README.md"),
    ("nothing()", "nothing"),
]


@pytest.mark.parametrize(("task", "part"), WRONG)
def test_a_users_mistake_is_a_user_error(task: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError) as caught:
        load(task, "train", 0)
    assert part in caught.value.message + caught.value.hint
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_nothing_held_out_is_a_user_error() -> None:
    with pytest.raises(UserError, match="no held-out examples"):
        load("arithmetic(held_out=0.0)", "test", 0)
    assert len(load("arithmetic(held_out=0.0)", "train", 0)) == 400


def test_a_prompt_may_hold_braces() -> None:
    assert prompt.fill("{a}{b} \\boxed{} {c", a=1, b="{a}") == "1{a} \\boxed{} {c"


@settings(deadline=None, max_examples=50)
@given(st.sets(st.text(max_size=8), max_size=20), st.floats(0, 0.99))
def test_choose_parts_the_keys(keys: set[str], share: float) -> None:
    train, test = split.choose(keys, "train", share), split.choose(keys, "test", share)
    assert train | test == keys
    assert not train & test
    assert (bool(train) and bool(test) == bool(share)) or len(keys) < 2


def test_the_places_of_keys_never_change() -> None:
    assert [round(split.place(k), 6) for k in ("3 + 5", "")] == [0.140257, 0.866604]  # else old runs lose their split


def test_only_train_and_test_are_splits() -> None:
    with pytest.raises(ValueError, match="validation"):
        list(tasks.arithmetic("validation", 0))


# -- the user's own task ----------------------------------------------------------------------------------------------


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from minigrpo.types import Example\n"
        "def good(split, seed, *, n=2):\n    return [Example(str(i), f'{i}?', i) for i in range(n)]\n"
        "def twice(split, seed):\n    return [Example('a', '?', 1)] * 2\n"
        "def other(split, seed):\n    return ['?']\n"
        "def numbered(split, seed):\n    return [Example(7, '?', 1)]\n"
        "def listed(split, seed):\n    return [Example(['a'], '?', 1)]\n"
    )
    assert len(load(f"{file}:good(n=3)", "train", 0)) == 3
    for name, part in [
        ("good(n=0)", "no training"),
        ("twice()", "'a' twice"),
        ("other()", "str"),
        ("numbered()", "id 7"),
        ("listed()", "no text"),
    ]:
        with pytest.raises(UserError, match=part):
            load(f"{file}:{name}", "train", 0)


# -- files ------------------------------------------------------------------------------------------------------------

GOOD = '{"question": "1+1?", "answer": "2"}\n'
BROKEN: list[tuple[bytes, str]] = [
    (b'{"question": "a", \'answer\': "b"}\n', "rows.jsonl:2: not valid JSON at column 19"),
    (b'{"question": "a"\n', "rows.jsonl:2: not valid JSON at column 17"),
    (b'   {"question": "a"\r\n', "rows.jsonl:2: not valid JSON at column 20"),
    (b"hello", "rows.jsonl:2: not valid JSON at column 1"),
    (b'{"question": "a", "answ', "rows.jsonl:2: file ends in the middle of a record"),
    (b'{"question": "a", "answer": {"x": "b"}', "rows.jsonl:2: file ends in the middle of a record"),
    (b'{"question": "a", "answer": 12', "rows.jsonl:2: file ends in the middle of a record"),
    (b'{"question": "a", "answer": "\\', "rows.jsonl:2: file ends in the middle of a record"),
    (b'{"question": "a"}', 'rows.jsonl:2: field "answer" is missing'),
    (b'{"question": "a", "answer": null}', 'rows.jsonl:2: field "answer" is null'),
    (b'{"question": "a", "answer": " "}', 'rows.jsonl:2: field "answer" is empty'),
    (b'{"question": "a", "answer": "so\\n#### "}', 'rows.jsonl:2: field "answer" has nothing behind ####'),
    (b'{"question": "", "answer": "b"}', 'rows.jsonl:2: field "question" is empty'),
    (b'{"question": " \\u00a0\\n", "answer": "b"}', 'rows.jsonl:2: field "question" is empty'),
    (b'{"question": null, "answer": "b"}', 'rows.jsonl:2: field "question" is null'),
    (b'{"question": 7, "answer": "b"}', 'rows.jsonl:2: field "question" is int, not text'),
    (b'{"question": "caf\xe9", "answer": "b"}\n', "rows.jsonl:2: not UTF-8 (byte 0xE9)"),
    (b'{"question": "a", "answer": NaN}', "rows.jsonl:2: the number is nan"),
    (b'{"question": "a", "answer": -Infinity}', "rows.jsonl:2: the number is -inf"),
    (b'{"question": "a", "answer": 1e999}', "rows.jsonl:2: the number is inf"),
    (b'{"question": "a", "answer": ' + b"9" * 400 + b"}", "rows.jsonl:2: a number of 400 digits"),
    (b'{"question": "a", "answer": ' + b"[" * 40 + b"]" * 40 + b"}", "rows.jsonl:2: nested deeper than 32"),
    (b'{"question": "a", "answer": ' + b"[" * 200_000 + b"\n", "rows.jsonl:2: nested deeper than 32"),
    (b'{"question": "a\\u0000", "answer": "b"}', "rows.jsonl:2: a NUL byte in the text"),
    (b'{"question": "a", "answer": "\\ud800"}', "rows.jsonl:2: half of a surrogate pair"),
    (b'{"question": "a", "question": "c", "answer": "b"}', "rows.jsonl:2: key 'question' is given twice"),
    (b'["a", "b"]', "rows.jsonl:2: not an object"),
    (b'{"question": "' + b"a" * 1_000_000 + b'", "answer": "b"}\n', "rows.jsonl:2: longer than 1 MB"),
    (b'{"question": [{"role": "user"}], "answer": "b"}', 'rows.jsonl:2: field "question" is no list of messages'),
    (b'{"question": [{"role": "system", "content": "x"}], "answer": "b"}', "has no message of a user"),
]


def examples(path: Path, **knobs: Any) -> list[Example]:
    return sorted(tasks.data("train", 0, path=str(path), held_out=0.0, **knobs), key=lambda e: e.id)


@pytest.mark.parametrize(("line", "problem"), BROKEN, ids=[p[11:60] for _, p in BROKEN])
def test_a_broken_row_is_named_and_left_out(
    line: bytes, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "rows.jsonl"
    last = b"" if not line.endswith(b"\n") else b'{"question": "2+2?", "answer": "4"}\n'
    file.write_bytes(GOOD.encode() + line + last)
    assert [e.answer for e in examples(file)] == ["2", "4"][: 2 if last else 1]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert problem in warned[0]
    assert f"1 of {2 + bool(last)} rows left out" in warned[0]
    file.write_bytes(b"\n" + line)
    with pytest.raises(UserError) as caught:
        examples(file)
    if "missing" not in problem:  # with this row alone there is no such column at all
        assert problem in caught.value.message


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


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    file = tmp_path_factory.mktemp("round") / "rows.jsonl"
    lines = [json.dumps({"question": q, "answer": a}, ensure_ascii=bool(i % 2)) for i, (q, a) in enumerate(pairs)]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [r.fields for r in rows.read(file)] == [{"question": q, "answer": a} for q, a in pairs]


CSV = [
    ("question,answer\n\"a, \"\"b\"\"\nc\",1\nd,2\n", ['a, "b"\nc', "d"], ""),
    ("question;answer\na;1\nb;2\n", ["a", "b"], ""),
    ("question,answer\na,1,x\nb,2\n", ["b"], "rows.csv:2: 3 fields, the header has 2"),
    ("question,answer\na,1\n\"b\nc,2\n", ["a"], "rows.csv:3: file ends in the middle of a record"),
    ("question,answer\na\0,1\nb,2\n", ["b"], "rows.csv:2: a NUL byte"),
    ("question,answer\n,1\n,,\n\nb,\nc,2\n", ["c"], "rows.csv:5: field \"answer\" is empty"),
]  # fmt: skip


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


COLUMNS = [
    ({"Problem": "p", "Solution": "s"}, {}, ("p", "s")),
    ({"problem": "p", "solution": "s", "answer": "a"}, {}, ("p", "a")),
    ({"instruction": "do", "input": "this", "output": "o"}, {}, ("do\n\nthis", "o")),
    ({"instruction": "do", "input": "", "output": "o"}, {}, ("do", "o")),
    ({"x": "p", "y": "s"}, {"question": "x", "answer": "y"}, ("p", "s")),
    ({"query": "p", "label": 3}, {}, ("p", 3)),
    ({"query": "p", "label": "3"}, {}, ("p", "3")),
    ({"query": "p", "target": {"numbers": [1, 2]}}, {}, ("p", {"numbers": [1, 2]})),
    ({"text": "p"}, {"answer": ""}, ("p", None)),
    ({"prompt": [{"role": "user", "content": "p"}], "reward_model": {"ground_truth": "g"}}, {},
     ([{"role": "user", "content": "p"}], "g")),
    ({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "s #### 1,234"}]}, {},
     ([{"role": "user", "content": "p"}], "1234")),
    ({"question": "{question} \\x{}", "answer": "a"}, {"prompt": "Q: {question}"}, ("Q: {question} \\x{}", "a")),
    ({"messages": [{"role": "user", "content": "p"}], "answer": "a"}, {"prompt": "Q: {question}"},
     ([{"role": "user", "content": "Q: p"}], "a")),
]  # fmt: skip


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


def test_parquet(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"question": ["a", None, "c"], "answer": [1.5, 2.0, float("nan")]}), file)
    assert [(e.prompt, e.answer) for e in examples(file)] == [("a", 1.5)]
    assert 'rows.parquet:2: field "question" is null' in caplog.text
    assert "rows.parquet:3: the number is nan" in caplog.text
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="cannot be read as parquet"):
        examples(tmp_path / "bad.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError) as caught:
        examples(file, question="question")
    assert 'pip install "minigrpo[data]"' in caught.value.hint


# -- the hub ----------------------------------------------------------------------------------------------------------


def test_a_data_set_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, name in [("main", "train"), ("main", "test"), ("socratic", "train")]:
        (tmp_path / part).mkdir(exist_ok=True)
        row = {"question": f"{part} {name}", "answer": "so\n#### 1,000"}
        (tmp_path / part / f"{name}-00000-of-00001.jsonl").write_text(json.dumps(row))
    asked = []

    def download(name: str, choose: Any) -> Path:
        listing = [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jsonl")]
        asked.append((name, sorted(choose([*listing, "README.md"]))))
        return tmp_path

    monkeypatch.setattr(hub, "_download", download)
    train, test = both("gsm8k()")
    assert [e.prompt.split("\n")[0] for e in train + test] == ["main train", "main test"]
    assert train[0].answer == "1000"
    assert asked[0] == ("openai/gsm8k", ["main/test-00000-of-00001.jsonl", "main/train-00000-of-00001.jsonl"])
    with pytest.raises(UserError, match="several subsets: main, socratic"):
        load('data(path="hub:openai/gsm8k")', "train", 0)
    with pytest.raises(UserError, match="no subset 'mian'"):
        load('data(path="hub:openai/gsm8k", subset="mian")', "train", 0)


def test_no_hub_is_a_user_error() -> None:
    with pytest.raises(UserError, match="cannot fetch the data set openai/gsm8k"):  # conftest sets HF_HUB_OFFLINE
        load("gsm8k()", "train", 0)


def test_only_the_chosen_files_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    sizes = {
        "main/train.jsonl": 10,
        "main/test.jsonl": 10,
        "big/train.jsonl": 3 * 10**9,
        "README.md": 1,
        "main/train.csv": 1,
    }
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    asked: list[Any] = []

    def snapshot(name: str, **options: Any) -> str:
        asked.append(options)
        (tmp_path / "main").mkdir(exist_ok=True)
        (tmp_path / "main" / "train.jsonl").write_text(GOOD)
        return str(tmp_path)

    api = SimpleNamespace(dataset_info=lambda name, files_metadata: SimpleNamespace(siblings=siblings))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert load('data(path="hub:me/mine", subset="main", held_out=0.0)', "train", 0)[0].prompt == "1+1?"
    assert asked == [{"repo_type": "dataset", "allow_patterns": ["main/train.jsonl", "main/test.jsonl"]}]
    with pytest.raises(UserError, match="3.0 GB"):
        load('data(path="hub:me/mine", subset="big")', "train", 0)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    load('data(path="hub:me/mine", subset="main")', "train", 0)
    assert asked[1] == {"repo_type": "dataset", "local_files_only": True}


def test_which_file_is_for_what() -> None:
    assert sources._split_of("test_prep/train-00000.jsonl") == "train"
    assert sources._split_of("data/validation.jsonl") == "validation"
    assert sources._split_of("contest.jsonl") == "train"


# -- golds ------------------------------------------------------------------------------------------------------------

NATURAL = [
    ('arithmetic(ops="+-*", low=-5, high=9)', number),
    ("sequences()", number),
    ('data(path="data/word_problems.jsonl")', number),
    ('data(path="data/capitals.jsonl")', text),
]


@pytest.mark.parametrize(("task", "reward"), NATURAL, ids=[t for t, _ in NATURAL])
def test_a_tasks_own_answers_earn_full_marks(task: str, reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for example in sum(both(task), []):
        for words in (example.answer, example.meta.get("solution", example.answer)):
            verdict = reward(said(words), example)
            assert (verdict.value, verdict.lenient, verdict.status) == (1, 1, "ok"), example
            assert words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.skipif(not GSM8K.is_dir(), reason="no ../shared/data/gsm8k")
def test_gsm8k() -> None:
    train, test = both(f'gsm8k(path="{GSM8K}")')
    assert (len(train), len(test)) == (7473, 1319)
    assert "####" in train[0].prompt
    for example in train + test:
        assert number(said(example.answer), example).value == 1
        verdict = number(said(example.meta["solution"]), example)
        assert (verdict.value, verdict.rule) == (1, "####"), example


def test_word_problems_are_what_their_script_makes() -> None:
    made = runpy.run_path(str(ROOT / "data" / "make_word_problems.py"))["rows"]()
    assert [json.loads(line) for line in (ROOT / "data" / "word_problems.jsonl").read_text().splitlines()] == made


# -- the seam ---------------------------------------------------------------------------------------------------------


def test_the_options_are_listed() -> None:
    listed = spec.options(tasks)
    assert [row["name"] for row in listed] == ["arithmetic", "data", "gsm8k", "sequences"]
    assert all(row["help"] for row in listed)
    assert "held_out" in listed[0]["knobs"]


def test_these_rooms_import_no_torch() -> None:
    code = "import sys, minigrpo.tasks.load, minigrpo.rewards.scoring as s; s.build(['number()']);"
    code += "print([m for m in ('torch', 'transformers', 'numpy', 'pyarrow', 'huggingface_hub') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
    assert rewards.__all__


def test_the_config_says_which_tasks_have_a_short_budget() -> None:
    [budget] = set(SHORT.values())
    described = Config.model_fields["max_tokens"].description
    assert described == f"completion budget; {' and '.join(SHORT)} take {budget}"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"task": "arithmetic"}, 32),
        ({"task": "sequences(length=4)"}, 32),
        ({"task": "arithmetic", "max_tokens": 200}, 200),
        ({"task": "gsm8k()"}, 256),
        ({"task": "mine.py:arithmetic()"}, 256),
    ],
)
def test_short_tasks_have_a_short_budget_unless_one_is_asked_for(values: dict[str, Any], expected: int) -> None:
    from minigrpo import config
    from minigrpo.tasks.load import suited

    assert suited(config.build(values)).max_tokens == expected
