"""Loads a policy with transformers, peft and bitsandbytes: device, compute type, 4-bit base, adapter."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, GenerationConfig
from transformers.utils import logging as transformers_logging

from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.policy import attention, logprobs, lora, prompt
from minigrpo.policy.logprobs import head
from minigrpo.policy.policy import Base, Policy
from minigrpo.policy.resolve import resolve

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def load(config: Config, offline: bool = False, learns: bool = True, base: Base | None = None) -> Policy:
    """The policy that a config describes: its base, quantised or not, under a fresh or given adapter.

    One that only answers (`learns` false) needs no copy of a given adapter as its reference. Raises UserError.
    """
    base = base or resolve(config.model, offline)
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    device = pick_device()
    dtype = pick_dtype(device) if config.dtype == "auto" else DTYPES[config.dtype]
    with _explained(base):
        tokenizer = AutoTokenizer.from_pretrained(base.path, local_files_only=True, trust_remote_code=False)
        model, quant = _model(base, device, dtype, config.quant)
    prompt.prepare(tokenizer)
    prompt.check_vocabulary(tokenizer, model)
    stop_ids = prompt.stop_ids(tokenizer, model.generation_config, config.template_kwargs)
    model.generation_config = GenerationConfig()  # what it says of sampling would fill in where ours is silent
    _check_head(model, device)
    if config.adapter:
        peft_model = lora.start_from(model, Path(config.adapter), learns)
    else:
        peft_model = lora.fresh(
            model, config.lora_r, config.lora_alpha, config.lora_dropout, config.lora_targets, config.seed
        )
    peft_model.peft_config["default"].base_model_name_or_path = base.name  # not where it lies on this machine
    peft_model.eval()
    context = int(getattr(model.config.get_text_config(), "max_position_embeddings", 0) or 1 << 30)
    policy = Policy(
        peft_model, lora.layers(peft_model), tokenizer, base, device, dtype, quant, stop_ids, context,
        native=False, packed=False,
    )  # fmt: skip
    policy.native = attention.supported(model) and logprobs.packs(policy)
    policy.packed = policy.native and config.train_path != "naive"
    return policy


@contextmanager
def _explained(base: Base) -> Iterator[None]:
    """Says in two lines what transformers says in forty, where a folder holds no model that it can load."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        hint = "it must be a causal language model of transformers, with its tokenizer, and need no code of its own"
        raise UserError(f"{base.name} cannot be loaded: {reason}", hint) from None


def name_of(dtype: torch.dtype) -> str:
    """A compute type as the config writes it."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def pick_device() -> torch.device:
    """cuda before mps before cpu."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def pick_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the hardware multiplies it, else fp16 on a GPU, else fp32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "mps":
        return torch.bfloat16 if torch.backends.mps.is_macos_or_newer(14, 0) else torch.float32
    return torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32


def _model(base: Base, device: torch.device, dtype: torch.dtype, quant: str) -> tuple[Any, str]:
    """The base model on its device, and how it is quantised."""
    stored = _stored_quant(base)
    if stored and quant == "none":
        hint = "use quant=auto, or the 16-bit model it was made from"
        raise UserError(f"{base.name} is stored in 4 bits, so quant=none cannot be had", hint)
    options: dict[str, Any] = {"dtype": dtype, "local_files_only": True, "trust_remote_code": False}
    if not stored and (quant == "none" or (quant == "auto" and device.type != "cuda")):
        return AutoModelForCausalLM.from_pretrained(base.path, **options).to(device), "none"
    if "bitsandbytes" not in sys.modules:
        raise UserError(
            "quant=nf4 needs bitsandbytes, which does not load here", "pip install bitsandbytes, or quant=none"
        )
    if not stored:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
    model = AutoModelForCausalLM.from_pretrained(base.path, device_map={"": str(device)}, **options)
    _guard_4bit(model, dtype, "use the 16-bit model it was made from" if stored else "use quant=none")
    return model, "nf4"


def _stored_quant(base: Base) -> bool:
    """Whether the weights are stored in bitsandbytes' 4 bits. Raises UserError for every other quantisation."""
    config = AutoConfig.from_pretrained(base.path, local_files_only=True, trust_remote_code=False)
    stored = getattr(config, "quantization_config", None)
    if stored is None:
        return False
    found = stored if isinstance(stored, dict) else stored.to_dict()
    if not found.get("load_in_4bit"):
        kind = found.get("quant_method", "an unknown method")
        raise UserError(f"{base.name} is quantised by {kind}", "take its 16-bit original, or a bitsandbytes 4-bit one")
    return True


def _guard_4bit(model: Any, dtype: torch.dtype, otherwise: str) -> None:
    """On AVX512-BF16 CPUs bitsandbytes repacks a layer at its first pass without gradients, and later gradients
    through it are lost without a word (0.50.2): tell each layer that the CPU cannot. Compute in our type.

    On every CPU it reads blocks of 64 weights that run over the end of a row wrongly: refuse such layers."""
    import bitsandbytes

    for name, module in model.named_modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            if module.weight.device.type == "cpu" and module.in_features % 64:
                message = (
                    f"on a CPU bitsandbytes cannot read {name}: its {module.in_features} inputs are no multiple of 64"
                )
                raise UserError(message, otherwise)
            module.support_avx512bf16_for_cpu = False
            module.compute_dtype, module.compute_type_is_set = dtype, True


@torch.no_grad()
def _check_head(model: Any, device: torch.device) -> None:
    """Our log-probs go round the model's own head; a model that does more there than we know is refused."""
    ids = torch.arange(2, 10, device=device)[None] % model.config.get_text_config().vocab_size
    theirs = model(input_ids=ids, use_cache=False).logits[0].float()
    ours = head(model)(model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0])
    if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2):
        raise UserError(
            f"{type(model).__name__} turns hidden states into logits in a way minigrpo does not know",
            "choose another model",
        )
