"""Writes word_problems.jsonl: one-step word problems from a few templates, with the answer behind ####."""

import json
import random
from pathlib import Path

NAMES = ["Ada", "Ben", "Chen", "Dina", "Emil", "Fatma", "Goran", "Hana"]
THINGS = ["apples", "books", "coins", "marbles", "pencils", "stamps"]
# text, sign, smallest and largest of each number
TEMPLATES = [
    ("{name} has {a} {things} and finds {b} more. How many {things} does {name} have now?", "+", (2, 40), (2, 40)),
    ("{name} has {a} {things} and gives {b} away. How many {things} are left?", "-", (20, 50), (2, 19)),
    ("{name} fills {a} bags with {b} {things} each. How many {things} are in the bags?", "*", (2, 9), (2, 12)),
    ("{name} buys {a} {things} in May and {b} in June. How many {things} is that in all?", "+", (2, 60), (2, 60)),
]


def rows(count: int = 200, seed: int = 0) -> list[dict[str, str]]:
    """`count` different questions; the same ones every time."""
    rng = random.Random(seed)
    made: dict[str, str] = {}
    while len(made) < count:
        text, sign, first, second = rng.choice(TEMPLATES)
        a, b = rng.randint(*first), rng.randint(*second)
        value = {"+": a + b, "-": a - b, "*": a * b}[sign]
        question = text.format(name=rng.choice(NAMES), things=rng.choice(THINGS), a=a, b=b)
        made[question] = f"{a} {sign} {b} = {value}\n#### {value}"
    return [{"question": question, "answer": answer} for question, answer in made.items()]


if __name__ == "__main__":
    lines = [json.dumps(row) + "\n" for row in rows()]
    Path(__file__).with_name("word_problems.jsonl").write_text("".join(lines), encoding="utf-8")
