"""A tiny model and tokenizer built from a config: no download, milliseconds to make."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: two busy processes must not slow each other 70-fold
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test reaches a hub

from pathlib import Path
from typing import Any

import pytest

GROUNDS = ("cli", "runfolder", "tasks", "rewards", "resolve", "session", "prompt", "train", "chat")
pytest.register_assert_rewrite(*(f"{name}_ground" for name in GROUNDS))

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tiny_tokenizer(template: str | None = TEMPLATE) -> Any:
    """One token a byte, and two special tokens; the stop token is <|im_end|>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(seed: int = 0, **overrides: Any) -> Any:
    """A two-layer Llama of width 32 over the tiny tokenizer's 258 tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes: dict[str, Any] = dict(
        vocab_size=258, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=256, eos_token_id=257, pad_token_id=257,
        initializer_range=0.2, tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**(sizes | overrides)))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model and tokenizer as a local model folder."""
    folder = tmp_path_factory.mktemp("tiny-llama")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `tiny_folder`, but 64 wide: bitsandbytes on a CPU reads narrower layers wrongly."""
    folder = tmp_path_factory.mktemp("wide-llama")
    tiny_model(hidden_size=64, intermediate_size=128).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_policy(folder: Path, dtype: str = "fp32", seed: int = 0, stir: float = 0.0, **options: Any) -> Any:
    """The tiny model as a policy; `stir` > 0 gives its adapter random weights, as if it had learnt."""
    import torch

    from minigrpo import config
    from minigrpo.policy import hf

    policy = hf.load(config.build({"model": str(folder), "dtype": dtype, "seed": seed, **options}))
    if stir:
        torch.manual_seed(seed)
        for p in policy.trainable():
            p.data = torch.randn_like(p) * stir
    return policy


def renderer(policy: Any, **options: Any) -> Any:
    from minigrpo.policy.prompt import Renderer

    return Renderer(policy.tokenizer, **options)
