"""Chat with what was trained: the base and the adapter answer side by side, from the same weights."""

from collections.abc import Callable

from minigrpo.errors import UserError
from minigrpo.trained import Trained
from minigrpo.types import Example, Message

Talk = list[Message]


def answer(trained: Trained, talks: tuple[Talk, Talk], max_tokens: int) -> tuple[str, str]:
    """What the base and the adapter say next, each in its own conversation; greedy."""
    with trained.policy.bare():
        base = _say(trained, talks[0], max_tokens)
    return base, _say(trained, talks[1], max_tokens)


def _say(trained: Trained, talk: Talk, max_tokens: int) -> str:
    ids, context = trained.engine.encode(Example("chat", talk, None)), trained.policy.context
    if len(ids) >= context:
        raise UserError(f"that has {len(ids)} tokens, the model takes {context} in all", "ask for less at once")
    room = min(max_tokens, context - len(ids))
    rows, _ = trained.engine.generate([ids], 1, max_tokens=room, temperature=0.0, seeds=[0])
    return trained.engine.decode(rows[0].ids)


def once(trained: Trained, question: str, max_tokens: int) -> dict[str, str]:
    """One question, two answers."""
    talk: Talk = [{"role": "user", "content": question}]
    base, adapter = answer(trained, (talk, talk), max_tokens)
    return {"prompt": question, "base": base, "adapter": adapter}


def converse(trained: Trained, ask: Callable[[], str], tell: Callable[[str, str], None], max_tokens: int) -> None:
    """Turn after turn until `ask` raises EOFError; an empty line starts afresh."""
    talks: tuple[Talk, Talk] = ([], [])
    while True:
        try:
            question = ask().strip()
        except EOFError:
            return
        if not question:
            talks = ([], [])
            continue
        for talk in talks:
            talk.append({"role": "user", "content": question})
        try:
            answers = answer(trained, talks, max_tokens)
        except UserError as error:  # too long by now, or no text
            tell("minigrpo", f"{error.message}; we start afresh")
            talks = ([], [])
            continue
        for talk, name, text in zip(talks, ("base", "adapter"), answers, strict=True):
            talk.append({"role": "assistant", "content": text})
            tell(name, text)
