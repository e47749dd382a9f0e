# ruff: noqa: E501 (templates)
"""What the tests of prompt share: their tables."""

import datetime
from typing import Any

from conftest import tiny_tokenizer

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
