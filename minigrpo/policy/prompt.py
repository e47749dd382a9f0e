"""From an example to token ids, once: the chat template, its stop tokens, and what an adapter needs to do the same."""

import datetime
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from minigrpo.errors import UserError
from minigrpo.policy.policy import Base
from minigrpo.types import THINKING, Example, Message

log = logging.getLogger("minigrpo.policy")
FILE = "minigrpo.json"
OPENED = re.compile(rf"({'|'.join(re.escape(o) for o, _ in THINKING)})\s*\Z")
MARK = "minigrpo answers"


@dataclass(frozen=True)
class Renderer:
    """How a run turns examples into prompts; the same for training, evaluation and chat.

    `system_prompt` replaces an example's own. `date` is what the template takes for today, so that a run that goes
    on past midnight, or is resumed, keeps its prompts. The template decides on the beginning-of-text token, as in
    transformers and TRL; only without a template (contents joined by blank lines) does the tokenizer add its own.
    """

    tokenizer: Any
    system_prompt: str | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    date: datetime.date = field(default_factory=datetime.date.today)

    def __post_init__(self) -> None:
        if not self.tokenizer.chat_template:
            log.warning("no chat template: prompts are plain text (right for a base model)")
            return
        start = self.tokenizer.bos_token_id
        if start is not None and self.tokenizer("x")["input_ids"][0] == start != self.encode(Example("x", "x", ""))[0]:
            log.warning("the chat template begins without %s, and is followed", self.tokenizer.bos_token)

    def text(self, example: Example) -> str:
        """The exact text of the prompt. Raises UserError where the template refuses the messages."""
        messages = _messages(example)
        if self.system_prompt:
            system = [{"role": "system", "content": self.system_prompt}]
            messages = system + [m for m in messages if m["role"] != "system"]
        if not self.tokenizer.chat_template:
            return "\n\n".join(m["content"] for m in messages)
        try:
            return self._render_with_system(messages)
        except Exception as error:  # a template is a program: it can raise anything
            reason = (str(error) or type(error).__name__).splitlines()[0]
            hint = "its messages need the roles and the order that the model's chat template takes"
            raise UserError(f"example {example.id!r} does not fit the chat template: {reason}", hint) from None

    def encode(self, example: Example) -> list[int]:
        """The prompt's ids; special tokens come from the template's text or from the tokenizer, never from both."""
        return self.read(example)[0]

    def prefill(self, example: Example) -> str:
        """The opening think tag with which the prompt ends ("<think>\\n"), or "": the completion starts inside it."""
        return self.read(example)[1]

    def decode(self, ids: Sequence[int]) -> str:
        """What was written, as text: special tokens are left out."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def read(self, example: Example) -> tuple[list[int], str]:
        """`encode` and `prefill` from one rendering."""
        templated, text = bool(self.tokenizer.chat_template), self.text(example)
        if not text.isascii() and text != text.encode("utf-8", "replace").decode():
            raise UserError(f"example {example.id!r} is not text: it holds half a character", "write it in UTF-8")
        ids = list(self.tokenizer(text, add_special_tokens=not templated)["input_ids"])
        if not templated and ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()  # tokenizers that close every text: a prompt must stay open
        if not ids:
            raise UserError(f"example {example.id!r} has an empty prompt", "give it a prompt of at least one token")
        found = OPENED.search(text)
        return ids, found[0] if found else ""

    def _render_with_system(self, messages: list[Message]) -> str:
        """Render; where the template has no place for a system text, put that before the first question."""
        if messages[0]["role"] != "system":
            return self._render(messages)
        system = messages[0]["content"]
        try:
            text = self._render(messages)
            if system.strip() in text:
                return text
            refused: Exception = ValueError("the system prompt is dropped")
        except Exception as error:
            refused = error
        rest = list(messages[1:])
        if not rest or rest[0]["role"] != "user":
            raise refused
        return self._render([{**rest[0], "content": f"{system}\n\n{rest[0]['content']}"}, *rest[1:]])

    def _render(self, messages: Sequence[Message]) -> str:
        opened = messages[-1]["role"] == "assistant"  # an example that begins the answer itself
        options = {"add_generation_prompt": not opened, "continue_final_message": opened}
        return render(self.tokenizer, messages, self.date, {**self.template_kwargs, **options})


def fitting(
    examples: Sequence[Example], renderer: Renderer, longest: int, context: int, max_tokens: int
) -> list[Example]:
    """The examples whose prompt, of at most `longest` tokens, leaves room for an answer of `max_tokens`.

    What the template opens for the model (`<think>`) is added to their meta, so that checkers know of it. The others
    are counted. Raises UserError where none fits.
    """
    limit = min(longest, context - max_tokens)
    found = [(e, *renderer.read(e)) for e in examples]
    kept = [(e, opened) for e, ids, opened in found if len(ids) <= limit]
    if examples and not kept:
        shortest = min(len(ids) for _, ids, _ in found)
        hint = f"lower the completion budget ({max_tokens}): the model takes {context} in all"
        if shortest + max_tokens <= context:
            hint = f"raise max_prompt_tokens ({longest})"
        raise UserError(
            f"every prompt is too long: the shortest has {shortest} tokens, {max(0, limit)} are allowed", hint
        )
    if left := len(examples) - len(kept):
        log.warning("%d of %d prompts are longer than %d tokens and left out", left, len(examples), limit)
    return [replace(e, meta={**e.meta, "prefill": opened}) if opened else e for e, opened in kept]


def render(tokenizer: Any, messages: Sequence[Message], today: datetime.date, options: Mapping[str, Any]) -> str:
    """The template's text. `strftime_now`, a global of the templates, tells `today` unless an option says otherwise."""
    frozen = {"strftime_now": today.strftime, **options}
    return str(tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False, **frozen))


def stop_ids(
    tokenizer: Any, generation_config: Any = None, template_kwargs: Mapping[str, Any] | None = None
) -> frozenset[int]:
    """Every token that ends an answer: the tokenizer's, the generation config's and the template's own.

    They differ in many families (Phi-3.5 ends a turn with 32007, Gemma-3 with 106). Raises UserError where there is
    none.
    """
    ids = {tokenizer.eos_token_id, _end_of_turn(tokenizer, template_kwargs or {})}
    configured = getattr(generation_config, "eos_token_id", None)
    ids |= set(configured) if isinstance(configured, (list, tuple)) else {configured}
    known = frozenset(int(i) for i in ids if i is not None)
    if not known:
        raise UserError("the model has no stop token", "set eos_token in its tokenizer_config.json")
    return known


def _end_of_turn(tokenizer: Any, template_kwargs: Mapping[str, Any]) -> int | None:
    """The special token that the template writes directly after an assistant's text."""
    if not tokenizer.chat_template:
        return None
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": MARK}]
    try:
        text = render(tokenizer, turns, datetime.date.today(), template_kwargs)
    except Exception as error:  # it will be said again, with an example, when a prompt is rendered
        log.warning("the chat template does not take an assistant turn: %s", error)
        return None
    after = text.rpartition(MARK)[2].lstrip()
    special = {str(t): i for i, t in tokenizer.added_tokens_decoder.items() if t.special and after.startswith(str(t))}
    return special[max(special, key=len)] if special else None


def prepare(tokenizer: Any) -> None:
    """Pad on the left, with a token that is there already: masks come from lengths, so which one never matters."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.convert_ids_to_tokens(0)


def check_vocabulary(tokenizer: Any, model: Any) -> None:
    """Refuse a tokenizer that can write ids the model has no row for. Raises UserError.

    Special tokens past the end that no prompt uses are let pass: text-only Gemma-3 ships one, for images.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    beyond = {token: i for token, i in tokenizer.get_vocab().items() if i >= rows}
    special = {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
    named = set(tokenizer.special_tokens_map.values())
    template = str(tokenizer.chat_template or "")
    if any(token not in special or token in named or token in template for token in beyond):
        message = f"tokenizer has {max(beyond.values()) + 1} ids, model {rows}"
        raise UserError(message, "they do not belong together: take both from the same folder or hub id")


def save_prompt(folder: Path, renderer: Renderer, base: Base, stops: frozenset[int]) -> None:
    """Put beside an adapter what chatting with it elsewhere needs: tokenizer, template, kwargs, date, base."""
    renderer.tokenizer.save_pretrained(folder)
    saved = {
        "v": 1,
        "system_prompt": renderer.system_prompt,
        "template_kwargs": dict(renderer.template_kwargs),
        "date": renderer.date.isoformat(),
        "stop_ids": sorted(stops),
        "base": {k: v for k, v in asdict(base).items() if k != "path"},  # the path says where someone's home is
    }
    (folder / FILE).write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n", "utf-8")


class Kept(NamedTuple):
    """What an adapter says of the prompts it was trained on, and of its base (whose path is left out)."""

    system_prompt: str | None
    template_kwargs: dict[str, Any]
    date: datetime.date
    base: Base


def load_prompt(folder: Path) -> Kept | None:
    """What `save_prompt` wrote, or None for an adapter made elsewhere. Raises UserError."""
    if not (folder / FILE).exists():
        return None
    try:
        saved = json.loads((folder / FILE).read_text("utf-8"))
        base = Base(**{k: str(v) for k, v in saved["base"].items()}, path="")
        day = datetime.date.fromisoformat(saved["date"])
        return Kept(saved["system_prompt"], dict(saved["template_kwargs"]), day, base)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise UserError(f"cannot read {folder / FILE}: {error}", "save the adapter again") from None


def _is_text(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _messages(example: Example) -> list[Message]:
    if isinstance(example.prompt, str):
        return [{"role": "user", "content": example.prompt}]
    messages = list(example.prompt)
    if not messages or not all(isinstance(m, Mapping) and _is_text(m.get("role"), m.get("content")) for m in messages):
        hint = "each is {role: user, content: text}, one at least"
        raise UserError(f"example {example.id!r} has no list of messages", hint)
    return messages
