"""Prompts: what each family's template makes of an example, where an answer ends, and what an adapter carries along."""

import logging
from typing import Any

import pytest
from conftest import tiny_tokenizer
from prompt_ground import (  # noqa: F401
    APRIL,
    ASK,
    LLAMA3,
    MARCH,
    PHI3,
    R1,
    family,
    gemma,
    llama3,
    mistral,
    phi3,
    qwen3,
)

from minigrpo.errors import UserError
from minigrpo.policy.prompt import Renderer
from minigrpo.types import Example


def test_chatml_is_rendered_once_and_its_special_tokens_are_single_ids() -> None:
    tokenizer = tiny_tokenizer()
    renderer = Renderer(tokenizer)
    assert renderer.text(ASK) == "<|im_start|>user\n7 + 5?<|im_end|>\n<|im_start|>assistant\n"
    ids = renderer.encode(ASK)
    assert tokenizer.decode(ids) == renderer.text(ASK)
    assert (ids.count(256), ids.count(257)) == (2, 1)


def test_the_template_gives_the_same_ids_as_transformers() -> None:
    for tokenizer in (tiny_tokenizer(), qwen3(), gemma(), phi3(), mistral()):
        theirs = tokenizer.apply_chat_template([{"role": "user", "content": "7 + 5?"}], add_generation_prompt=True)
        assert Renderer(tokenizer).encode(ASK) == list(theirs["input_ids"])


@pytest.mark.parametrize("make", [llama3, gemma, mistral])
def test_the_beginning_of_text_is_never_doubled(make: Any) -> None:
    tokenizer = make()
    assert tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id, "the tokenizer itself would add one"
    assert Renderer(tokenizer).encode(ASK).count(tokenizer.bos_token_id) == 1


def test_a_template_without_beginning_of_text_is_followed_with_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = family(PHI3, "<s> <|endoftext|> <|end|> <|user|> <|assistant|>", "<s>", "<|endoftext|>", add_bos=True)
    with caplog.at_level(logging.WARNING, "minigrpo.policy"):
        assert tokenizer.bos_token_id not in Renderer(tokenizer).encode(ASK)
    assert "begins without <s>" in caplog.text


def test_template_kwargs_reach_the_template() -> None:
    assert Renderer(qwen3()).text(ASK).endswith("<|im_start|>assistant\n")
    assert Renderer(qwen3(), template_kwargs={"enable_thinking": False}).text(ASK).endswith("<think>\n\n</think>\n\n")


def test_a_prefilled_think_tag_is_told() -> None:
    r1 = family(R1, "<|bos|> <|User|> <|Assistant|> <|end_of_sentence|>", "<|bos|>", "<|end_of_sentence|>")
    assert Renderer(r1).prefill(ASK) == "<think>\n"
    assert Renderer(qwen3()).prefill(ASK) == ""
    assert Renderer(qwen3(), template_kwargs={"enable_thinking": False}).prefill(ASK) == "", "opened and closed"
    assert Renderer(qwen3()).prefill(Example("e", "write <think>", "")) == "", "in the question, not at the end"


def test_the_date_is_that_of_the_run() -> None:
    tokenizer = llama3()
    march = Renderer(tokenizer, date=MARCH).text(ASK)
    assert "Today Date: 01 Mar 2026" in march
    assert march == Renderer(tokenizer, date=MARCH).text(ASK)
    assert "Today Date: 02 Apr 2026" in Renderer(tokenizer, date=APRIL).text(ASK)
    assert "Today Date: once" in Renderer(tokenizer, template_kwargs={"date_string": "once"}, date=MARCH).text(ASK)


def test_a_date_that_the_template_itself_fixes_stays() -> None:
    fixed = LLAMA3.replace("strftime_now is defined", "false")  # Llama-3.1's
    tokenizer = llama3()
    tokenizer.chat_template = fixed
    assert "Today Date: 26 Jul 2024" in Renderer(tokenizer, date=MARCH).text(ASK)


def test_the_system_prompt_goes_first_and_replaces_the_example_s_own() -> None:
    own = Example("e", [{"role": "system", "content": "old"}, {"role": "user", "content": "q"}], "")
    assert "<|im_start|>system\nold<|im_end|>" in Renderer(qwen3()).text(own)
    text = Renderer(qwen3(), "new").text(own)
    assert text.startswith("<|im_start|>system\nnew<|im_end|>\n<|im_start|>user\nq")
    assert "old" not in text


def test_a_template_without_a_system_role_gets_it_in_the_first_question() -> None:
    assert Renderer(gemma(), "Be brief.").text(ASK) == (
        "<bos><start_of_turn>user\nBe brief.\n\n7 + 5?<end_of_turn>\n<start_of_turn>model\n"
    )
    assert Renderer(mistral(), "Be brief.").text(ASK) == "<s>[INST] Be brief.\n\n7 + 5? [/INST]", (
        "dropped silently there"
    )


def test_an_example_that_begins_the_answer_is_gone_on_with() -> None:
    begun = Example("e", [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is"}], "")
    assert Renderer(tiny_tokenizer()).text(begun).endswith("<|im_start|>assistant\nThe answer is")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user"}],
        ["text"],
        [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": None}],
    ],
)
def test_messages_a_template_refuses_are_told_with_the_example(messages: Any) -> None:
    with pytest.raises(UserError) as told:
        Renderer(gemma(), "system").text(Example("row 7", messages, ""))
    assert "row 7" in told.value.message
    assert told.value.hint
    assert "\n" not in told.value.message


def test_without_a_template_prompts_are_plain_text_with_the_tokenizer_s_own_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokenizer = family(None, "<s> </s>", "<s>", "</s>", add_bos=True)
    with caplog.at_level(logging.WARNING, "minigrpo.policy"):
        renderer = Renderer(tokenizer, "Add.")
    assert "plain text" in caplog.text
    assert renderer.text(ASK) == "Add.\n\n7 + 5?"
    ids = renderer.encode(ASK)
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids[1:]) == "Add.\n\n7 + 5?"
    with pytest.raises(UserError, match="empty prompt"):
        Renderer(family(None, "</s>", None, "</s>")).encode(Example("e", "", ""))
