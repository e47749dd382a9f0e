"""Handlers of the Chat tab: a model is loaded, asked and heard; what it says is scored; blind votes are counted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.ui import adapters, trial
from minigrpo.ui.ask import Answer, Handler, Query, handler
from minigrpo.ui.control import append_note
from minigrpo.ui.questions import collected
from minigrpo.ui.shelf import Shelf
from minigrpo.ui.stage import Stage

NOTED = 4000  # characters of a text that is kept with a vote
Run = Annotated[str, Field(max_length=255)]
Step = Annotated[int, Field(ge=0, le=10**9)]
Text = Annotated[str, Field(max_length=100_000)]
Voted = Annotated[str, Field(max_length=20_000)]
Which = Literal["base", "adapter"]


class Message(Query):
    role: Literal["system", "user", "assistant"]
    content: Text


Talk = Annotated[list[Message], Field(min_length=1, max_length=200)]


class Talks(Query):
    base: Talk
    adapter: Talk


class Open(Query):
    run: Run
    step: Step | None = None
    look: bool = False  # only say how far it is, load nothing


class Say(Query):
    run: Run
    step: Step | None = None
    talks: Talks
    temperature: float = Field(ge=0, le=5)
    seed: int = Field(ge=0, lt=2**53)
    max_tokens: int = Field(ge=1, le=16384)


class Ident(Query):
    id: str = Field(max_length=64)


class Nothing(Query):
    pass


class Questions(Query):
    run: Run
    n: int = Field(default=8, ge=1, le=50)


class Judged(Query):
    run: Run
    text: str = Field(max_length=trial.LARGEST)
    answer: Any


class Sides(Query):
    a: Which
    b: Which


class Vote(Query):
    run: Run
    prompt: Voted
    a: Voted
    b: Voted
    choice: Literal["a", "b", "tie"]
    which: Sides


def functions(shelf: Shelf, stage: Stage | None = None) -> Sequence[Handler]:
    """The handlers of the Chat tab."""
    return [*_chat(shelf, stage or Stage()), *_judging(shelf)]


def _chat(shelf: Shelf, stage: Stage) -> Sequence[Handler]:
    @handler
    def chat_open(q: Open) -> Answer:
        """Has the adapter loaded; how far it is."""
        run = shelf.find(q.run)
        saved, final, training = adapters.steps(run), adapters.final(run), shelf.live()
        facts = {"steps": saved, "final": final, "training": training}
        key = adapters.key(q.run, run, q.step)
        if not saved and not final:
            fix = "it saves one at its first checkpoint" if q.run in training else f"minigrpo resume {run}"
            return {"state": "failed", "say": "no adapter is saved yet", "fix": fix, "warning": None, **facts}
        if not q.look:
            stage.open(key)
        return {**stage.look(key), **facts}

    @handler
    def chat_say(q: Say) -> Answer:
        """Asks both sides; loads the adapter first where it is not loaded."""
        for talk in (q.talks.base, q.talks.adapter):
            if talk[-1].role != "user":
                raise UserError("a talk ends with a question", "reload the page")
        body = q.model_dump(include={"talks", "temperature", "seed", "max_tokens"})
        return {"id": stage.say(adapters.key(q.run, shelf.find(q.run), q.step), body)}

    @handler
    def chat_poll(q: Ident) -> Answer:
        """How far an answer is."""
        return stage.poll(q.id)

    @handler
    def chat_stop(q: Ident) -> Answer:
        """Ends an answer where it is."""
        stage.stop(q.id)
        return {"ok": True}

    @handler
    def chat_close(q: Nothing) -> Answer:
        """Gives the model's memory back."""
        stage.close()
        return {"ok": True}

    return [chat_open, chat_say, chat_poll, chat_stop, chat_close]


def _judging(shelf: Shelf) -> Sequence[Handler]:
    @handler
    def questions(q: Questions) -> Answer:
        """Some questions of the run, with their right answers."""
        return {"rows": collected(shelf.find(q.run), q.n)}

    @handler
    def verdict(q: Judged) -> Answer:
        """What the run's rewards say of a text."""
        specs = runfolder.read_config(shelf.find(q.run)).get("reward")
        texts = [s for s in (specs if isinstance(specs, list) else [specs]) if isinstance(s, str)]
        if not texts:
            raise UserError("the run does not say which rewards it has", "only runs of minigrpo do, in config.yaml")
        return trial.run(texts, q.text, q.answer)

    @handler
    def vote(q: Vote) -> Answer:
        """Keeps a blind vote among the run's notes; how all of them stand."""
        run = shelf.find(q.run)
        texts = {name: getattr(q, name)[:NOTED] for name in ("prompt", "a", "b")}
        winner = "tie" if q.choice == "tie" else getattr(q.which, q.choice)
        append_note(run, {"vote": {**q.model_dump(exclude={"run"}), **texts, "winner": winner}})
        return {"tally": tally(run)}

    return [questions, verdict, vote]


def tally(run: Path) -> dict[str, int]:
    """How often each side was preferred."""
    found = dict.fromkeys(("base", "adapter", "tie"), 0)
    for line in runfolder.lines(run / "notes.jsonl"):
        vote = line.get("vote")
        winner = vote.get("winner") if isinstance(vote, dict) else None
        if isinstance(winner, str) and winner in found:
            found[winner] += 1
    return found
