"""What the tests of tasks share: their tables."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from minigrpo import tasks
from minigrpo.rewards import number, text
from minigrpo.tasks.load import load
from minigrpo.types import Completion, Example

ROOT = Path(__file__).parents[1]


GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"


def said(words: str) -> Completion:
    return Completion([], words, [], "stop", [])


def both(task: str, seed: int = 0) -> tuple[list[Example], list[Example]]:
    return load(task, "train", seed), load(task, "test", seed)


def _swapped(id: str) -> list[str]:
    sign = next((s for s in "+*x" if s in id), None)
    return ["".join((b, sign, a)) for a, _, b in [id.partition(sign)]] if sign else []


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


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


CSV = [
    ("question,answer\n\"a, \"\"b\"\"\nc\",1\nd,2\n", ['a, "b"\nc', "d"], ""),
    ("question;answer\na;1\nb;2\n", ["a", "b"], ""),
    ("question,answer\na,1,x\nb,2\n", ["b"], "rows.csv:2: 3 fields, the header has 2"),
    ("question,answer\na,1\n\"b\nc,2\n", ["a"], "rows.csv:3: file ends in the middle of a record"),
    ("question,answer\na\0,1\nb,2\n", ["b"], "rows.csv:2: a NUL byte"),
    ("question,answer\n,1\n,,\n\nb,\nc,2\n", ["c"], "rows.csv:5: field \"answer\" is empty"),
]  # fmt: skip


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


NATURAL = [
    ('arithmetic(ops="+-*", low=-5, high=9)', number),
    ("sequences()", number),
    ('data(path="data/word_problems.jsonl")', number),
    ('data(path="data/capitals.jsonl")', text),
]
