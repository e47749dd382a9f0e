"""What the tests of rewards share: their tables."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from minigrpo.types import Completion, Example, Group, Score


def said(words: str) -> Completion:
    return Completion([], words, [], "stop", [])


def asked(gold: Any, **meta: Any) -> Example:
    return Example("e", "?", gold, meta)


NUMBERS: list[tuple[str, Any, float, float, str, str, str | None]] = [
    # text, gold, strict, lenient, status, rule, extracted
    ("12", "12", 1, 1, "ok", "whole", "12"),
    (" 12.\n", 12, 1, 1, "ok", "whole", "12"),
    ("13", "12", 0, 0, "ok", "whole", "13"),
    ("12..", "12", 0, 1, "unreadable", "last number", "12"),
    ("7 + 5 = 12", "12", 0, 1, "unreadable", "last number", "12"),
    ("7 + 5 = 12", "5", 0, 0, "unreadable", "last number", "12"),
    ("The answer is 12.", "12", 0, 1, "unreadable", "last number", "12"),
    ("", "0", 0, 0, "unreadable", "none", None),
    ("I do not know.", "0", 0, 0, "unreadable", "none", None),
    ("1,234", "1234", 1, 1, "ok", "whole", "1,234"),
    ("1,234,567.50", "1234567.5", 1, 1, "ok", "whole", "1,234,567.50"),
    ("1,2345", "12345", 0, 0, "unreadable", "none", None),
    ("1,2,3", "123", 0, 0, "unreadable", "none", None),
    ("1, 2, 3", "3", 0, 1, "unreadable", "last number", "3"),
    ("1.2.3", "3", 0, 0, "unreadable", "none", None),
    ("042", "42", 1, 1, "ok", "whole", "042"),
    ("+42", "42", 1, 1, "ok", "whole", "+42"),
    ("\u22123", "-3", 1, 1, "ok", "whole", "\u22123"),
    ("-3", -3, 1, 1, "ok", "whole", "-3"),
    ("3", "-3", 0, 0, "ok", "whole", "3"),
    ("--3", "3", 0, 0, "unreadable", "last number", "-3"),
    ("$18", "18", 1, 1, "ok", "whole", "$18"),
    ("-$1,234.00", "-1234", 1, 1, "ok", "whole", "-$1,234.00"),
    ("$-5", "-5", 1, 1, "ok", "whole", "$-5"),
    ("$", "0", 0, 0, "unreadable", "none", None),
    (".5", "0.5", 1, 1, "ok", "whole", ".5"),
    (".5", "1/2", 1, 1, "ok", "whole", ".5"),
    ("1/2", 0.5, 1, 1, "ok", "whole", "1/2"),
    ("2/4", "1/2", 1, 1, "ok", "whole", "2/4"),
    ("-1 / 2", "-0.5", 1, 1, "ok", "whole", "-1 / 2"),
    ("1/0", "1", 0, 0, "unreadable", "none", None),
    ("12/05/2024", "2024", 0, 0, "unreadable", "none", None),
    ("0.1", 0.1, 1, 1, "ok", "whole", "0.1"),
    ("9007199254740993", "9007199254740992", 0, 0, "ok", "whole", "9007199254740993"),
    ("42e3", "42", 0, 0, "unreadable", "none", None),
    ("42e3", "3", 0, 0, "unreadable", "none", None),
    ("5kg", "5", 0, 1, "unreadable", "last number", "5"),
    ("H2O", "2", 0, 0, "unreadable", "none", None),
    ("from 40-45", "45", 0, 1, "unreadable", "last number", "45"),
    ("it fell to -45 degrees", "-45", 0, 1, "unreadable", "last number", "-45"),
    ("so...42", "42", 0, 1, "unreadable", "last number", "42"),
    ("\uff14\uff12", "42", 0, 0, "unreadable", "none", None),
    ("\u0664\u0662", "42", 0, 0, "unreadable", "none", None),
    ("#### 72", "72", 1, 1, "ok", "####", "72"),
    ("6*12=72\n#### 72\nThis was checked 3 times.", "72", 1, 1, "ok", "####", "72"),
    ("#### 41\nno:\n#### 42", "42", 1, 1, "ok", "####", "42"),
    ("#### 42\n#### 41", "42", 0, 0, "ok", "####", "41"),
    ("42\n####", "42", 0, 1, "unreadable", "last number", "42"),
    ("####\r\n42", "42", 0, 1, "unreadable", "last number", "42"),
    ("#### 10 or 12", "10", 0, 0, "unreadable", "last number", "12"),
    ("##### 42", "42", 0, 1, "unreadable", "last number", "42"),
    ("<answer> 42 </answer>", "42", 1, 1, "ok", "<answer>", "42"),
    ("<answer>41</answer><answer>42</answer> 43", "42", 1, 1, "ok", "<answer>", "42"),
    ("<answer>42</answer><answer>43", "42", 0, 0, "unreadable", "last number", "43"),
    ("<think>41</think>42", "42", 1, 1, "ok", "whole", "42"),
    ("so 41\n</think>\n\n42", "42", 1, 1, "ok", "whole", "42"),
    ("<think>#### 42</think>", "42", 0, 0, "unreadable", "none", None),
    ("<think>42", "42", 0, 0, "unreadable", "none", None),
    ("<think>a</think> <think> 42", "42", 0, 0, "unreadable", "none", None),
    ("1" * 1001, "1", 0, 0, "unreadable", "none", None),
    ("5 " + "1" * 5000, "5", 0, 0, "unreadable", "none", None),
    ("1" * 1000, "1" * 1000, 1, 1, "ok", "whole", "1" * 1000),
]


GOLDS = [
    ("1,234", 1234),
    (0.1, Fraction(1, 10)),
    (1e22, 10**22),
    (" $5 ", 5),
    (2, 2),
    (Decimal("2.50"), Fraction(5, 2)),
]


TAGS = ["####", "<think>", "</think>", "<answer>", "</answer>"]


pieces = st.sampled_from([*TAGS, "1", "23", "4,567", *".,-/$ \ne\u2212a\0\ud800\u00b2"])


HOSTILE = ["1" * 10**6, "1," * 10**6, "1,111" * 2 * 10**5, "-" * 10**6, "<think>" * 10**5, "####" * 10**5, "#" * 10**6,
           "</think>" * 10**5, "<answer>" * 10**5, "1/" * 10**6, "." * 10**6, " " * 10**6, "1.1e" * 10**5, "\n" * 10**6,
           "9**9**9**9**9", "__import__('os').system('true')", "(" * 10**5]  # fmt: skip


TEXTS: list[tuple[str, Any, float, float, str]] = [
    ("Paris", "Paris", 1, 1, "ok"),
    ('  "paris." \n', "Paris", 1, 1, "ok"),
    ("**Paris**!", "Paris", 1, 1, "ok"),
    ("\u201cNew   Delhi\u201d", "New Delhi", 1, 1, "ok"),
    ("London", "Paris", 0, 0, "ok"),
    ("The capital is Paris.", "Paris", 0, 1, "unreadable"),
    ("Parisian", "Paris", 0, 0, "ok"),
    ("Paris?\nNo, London.", "Paris", 0, 0, "ok"),
    ("<think>London</think> Paris", "Paris", 1, 1, "ok"),
    ("<answer>Paris</answer>", "Paris", 1, 1, "ok"),
    ("<think>Paris", "Paris", 0, 0, "unreadable"),
    ("", "Paris", 0, 0, "unreadable"),
    ("5", "-5", 0, 0, "ok"),
    ("5", ".5", 0, 0, "ok"),
    ("C", "C#", 0, 0, "ok"),
    ("C#", "C#", 1, 1, "ok"),
    ("listen", "silent", 0, 0, "ok"),
    ("?", "!", 0, 0, "ok"),
    ("STRASSE", "straße", 1, 1, "ok"),
    ("e\u0301", "\u00e9", 1, 1, "ok"),
    ("12", 12, 1, 1, "ok"),
]


FORMATS = [
    ("<think>six times seven</think><answer>42</answer>", "tags", 1),
    ("\n<think>\na\r\nb\n</think>\n\n<answer>\n42\n</answer>\n", "tags", 1),
    ("<think>if a<b then b>a</think>\n<answer>b</answer>", "think_answer", 1),
    ("<think></think><answer>42</answer>", "tags", 1),
    ("42", "tags", 0),
    ("", "tags", 0),
    ("<think>a</think>42", "tags", 0),
    ("<think>a</think><answer>42", "tags", 0),
    ("<think>a</think>\n<think>b</think>\n<answer>42</answer>", "tags", 0),
    ("<think></think><answer></answer>", "tags", 0),
    ("<think>a</think><answer> \n </answer>", "tags", 0),
    ("Sure! <think>a</think><answer>42</answer>", "tags", 0),
    ("<think>a</think> so <answer>42</answer>", "tags", 0),
    ("<think>a</think><answer>42</answer> done", "tags", 0),
    ("<think><think>a</think></think><answer>42</answer>", "tags", 0),
    ("<think>a</think><answer>41</answer><answer>42</answer>", "tags", 0),
    ("<think>a <answer>42</answer></think>", "tags", 0),
    ("<answer>42</answer><think>a</think>", "tags", 0),
    ("< think >a</ think >< answer >42</ answer >", "tags", 0),
    ("a</think><answer>42</answer>", "tags", 0),
    ("<think>a</think>The answer is 42.", "think", 1),
    ("<think>a", "think", 0),
    ("<think>a</think> ", "think", 0),
    ("So <think>a</think>42", "think", 0),
    ("<think>a<think>b</think>42", "think", 0),
]


def groups(*texts: str, gold: Any = "1", each: int = 4) -> list[Group]:
    return [
        Group(f"g{i}", Example(f"e{i}", "?", gold), [], [said(t) for t in texts[i : i + each]], 8)
        for i in range(0, len(texts), each)
    ]


WRONG = [
    ("nunber()", "'number'"),
    ("number(weight='a')", "weight"),
    ("number(weight=True)", "weight"),
    ("number(weight=1e400)", "weight"),
    ("number(lenient=1)", "lenient"),
    ("number(limit=2)", "limit"),
    ("number(", "number("),
    ("missing.py:brevity()", "missing.py"),
    ("{file}:single()", "(completion, example)"),
]


class Scalar:
    """What numpy and torch give for one number."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Index:
    """What numpy and torch give for one place."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def raising(error: BaseException) -> Any:
    def reward(completion: Completion, example: Example) -> float:
        if completion.text == "x":
            raise error
        return 1.0

    return reward


def returning(result: Any) -> Any:
    return lambda completion, example: result if completion.text == "x" else 1.0


def deep(completion: Completion, example: Example) -> float:
    return deep(completion, example) if completion.text == "x" else 1.0


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


FAILING = {
    "ZeroDivisionError: no": raising(ZeroDivisionError("no")),
    "ValueError: two lines": raising(ValueError("two\nlines")),
    "SystemExit: 3": raising(SystemExit(3)),
    "MemoryError": raising(MemoryError()),
    "Mute": raising(Mute()),
    "RecursionError": deep,
    "not NoneType": returning(None),
    "not str": returning("1.0"),
    "not list": returning([1.0]),
    "not complex": returning(1j),
    "returned nan": returning(float("nan")),
    "returned -inf": returning(-math.inf),
    "returned 1e+07": returning(1e7),
    "OverflowError": returning(10**400),
    "too many": returning(Scalar(ValueError("too many"))),
    "Score(nan": returning(Score(math.nan)),
    "lenient inf": returning(Score(1.0, lenient=math.inf)),
    "status 'fine'": returning(Score(1.0, status="fine")),  # type: ignore[arg-type]
    "said so": returning(Score(0.7, 0.7, "failed", note="said so")),
    "'str' object cannot": returning(Score(1.0, start="0")),  # type: ignore[arg-type]
    "'float' object cannot": returning(Score(1.0, end=2.0)),  # type: ignore[arg-type]
    "no words": returning(Score(1.0, note=Mute())),  # type: ignore[arg-type]
}


@dataclasses.dataclass(frozen=True)
class Richer(Score):
    """A user's own Score with a field more."""

    seen: Any = frozenset()
