"""Grade-school word problems (Cobbe et al., arXiv 2110.14168), asked so that number() can read the answer."""

from collections.abc import Iterable

from minigrpo.tasks.data import data
from minigrpo.types import Example


def gsm8k(
    split: str,
    seed: int,
    *,
    path: str | None = None,
    prompt: str = "{question}\n\nReason step by step. Then end with one line: #### and the answer as a number only.",
) -> Iterable[Example]:
    """GSM8K from the hub (openai/gsm8k), or from `path`: a folder with train.jsonl and test.jsonl, or one file.

    The prompt and the natural reward, number(), are a pair: both know the #### line. Raises UserError.
    """
    where = path or "hub:openai/gsm8k"
    return data(split, seed, path=where, question="question", answer="answer", prompt=prompt, subset="main")
