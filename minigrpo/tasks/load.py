"""From a task's text to its examples, checked: the one door through which the other rooms get them."""

from minigrpo import spec, tasks
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.types import Example

SHORT = {"arithmetic": 32, "sequences": 32}  # tokens that an answer needs, in tasks that want one number


def suited(config: Config) -> Config:
    """The config with the max_tokens that its task needs, unless one was asked for. Raises UserError."""
    task = spec.parse(config.task)
    if "max_tokens" in config.model_fields_set or task.file or task.name not in SHORT:
        return config
    return config.model_copy(update={"max_tokens": SHORT[task.name]})


def load(text: str, split: str, seed: int) -> list[Example]:
    """The examples of the task spec `text`, split "train" or "test". Raises UserError, also where there are none."""
    parsed = spec.parse(text)
    task = spec.bind(parsed, tasks)
    try:
        examples = list(task(split, seed))
    except (Exception, SystemExit) as error:
        if isinstance(error, UserError) or not parsed.file:
            raise
        raise UserError(spec.blame(error, parsed.file), "a task is: def mine(split, seed) -> Examples") from None
    if not examples:
        what = "training" if split == "train" else "held-out"
        raise UserError(f"{text} has no {what} examples", "ask for more questions, or change the task's held_out share")
    seen: set[str] = set()
    for example in examples:
        if not isinstance(example, Example):
            raise UserError(f"{text} gave a {type(example).__name__}, not an Example", "yield minigrpo.types.Example")
        if not isinstance(example.id, str):
            raise UserError(f"{text} gave the id {example.id!r}, which is no text", "write Example(str(id), …)")
        if example.id in seen:
            raise UserError(f"{text} gave the id {example.id!r} twice", "every example of a split has an id of its own")
        seen.add(example.id)
    return examples
