"""Loading: quantisation, compute type, the adapter, the reference, and no word to the network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import tiny_model, tiny_policy, tiny_tokenizer

from minigrpo.errors import UserError
from minigrpo.policy import hf, memory


def logits(policy: object) -> torch.Tensor:
    with torch.no_grad():
        return policy.model(torch.arange(12)[None]).logits  # type: ignore[attr-defined]


def test_nf4_with_double_quantisation(wide_folder: Path) -> None:
    bnb = pytest.importorskip("bitsandbytes")
    policy = tiny_policy(wide_folder, dtype="bf16", quant="nf4")
    layers = [m for m in policy.model.modules() if isinstance(m, bnb.nn.Linear4bit)]
    assert len(layers) == 14  # every linear layer of both blocks, not the head
    assert all(m.weight.quant_type == "nf4" and m.weight.quant_state.nested for m in layers)
    assert not any(m.support_avx512bf16_for_cpu for m in layers)
    plain = dict(tiny_policy(wide_folder, dtype="bf16").model.named_parameters())
    for name, m in policy.model.named_modules():
        if m in layers:
            near = bnb.functional.dequantize_4bit(m.weight, m.weight.quant_state).float()
            exact = plain[f"{name}.weight"].float()
            assert (near - exact).norm() / exact.norm() < 0.12


def test_a_model_stored_in_4_bits_loads_as_it_is(wide_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    made = tiny_policy(wide_folder, dtype="bf16", quant="nf4")
    made.model.unload().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    policy = tiny_policy(tmp_path, dtype="bf16")
    assert policy.quant == "nf4"
    assert torch.equal(logits(policy), logits(tiny_policy(wide_folder, dtype="bf16", quant="nf4")))
    with pytest.raises(UserError, match="stored in 4 bits"):
        tiny_policy(tmp_path, quant="none")


def test_layers_that_a_cpu_would_read_wrongly_are_refused(tiny_folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("on a GPU bitsandbytes reads them rightly")
    with pytest.raises(UserError, match="32 inputs are no multiple of 64"):
        tiny_policy(tiny_folder, quant="nf4")


def test_other_quantisations_are_refused(tmp_path: Path) -> None:
    model = tiny_model()
    model.config.quantization_config = {"quant_method": "gptq", "bits": 4}
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UserError, match="quantised by gptq"):
        tiny_policy(tmp_path)


def test_auto_means_no_4_bits_on_a_cpu(tiny_folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    policy = tiny_policy(tiny_folder, dtype="auto")
    assert (policy.quant, policy.device.type) == ("none", "cpu")
    assert policy.dtype == hf.pick_dtype(policy.device)


@pytest.mark.parametrize(("native_bf16", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
def test_cards_without_bf16_compute_in_fp16(
    monkeypatch: pytest.MonkeyPatch, native_bf16: bool, expected: object
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native_bf16)
    assert hf.pick_dtype(torch.device("cuda", 0)) == expected


def test_the_adapter_is_fp32_on_every_linear_layer_and_changes_nothing_at_first(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder, dtype="bf16")
    assert len(policy.trainable()) == 28
    assert {p.dtype for p in policy.trainable()} == {torch.float32}
    with policy.bare():
        bare = logits(policy)
    assert torch.equal(logits(policy), bare)


def test_the_reference_gives_the_adapter_back(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder, stir=0.1)
    before = logits(policy)
    with policy.reference():
        assert not torch.allclose(logits(policy), before, atol=1e-3)
    assert torch.equal(logits(policy), before)
    with pytest.raises(RuntimeError), policy.reference():
        raise RuntimeError
    assert torch.equal(logits(policy), before)
    assert len(policy.trainable()) == 28


def test_unknown_lora_targets_are_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="lora_targets"):
        tiny_policy(tiny_folder, lora_targets=["no_such_proj"])


def test_a_head_that_does_more_than_we_know_is_refused(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import LlamaForCausalLM

    stock = LlamaForCausalLM.forward

    def doubled(self: object, *args: object, **kwargs: object) -> object:
        out = stock(self, *args, **kwargs)
        out.logits = out.logits * 2
        return out

    monkeypatch.setattr(LlamaForCausalLM, "forward", doubled)
    with pytest.raises(UserError, match="a way minigrpo does not know"):
        tiny_policy(tiny_folder)


@pytest.mark.slow
def test_bitsandbytes_asks_no_hub_and_says_nothing(tmp_path: Path) -> None:
    """Where `kernels` is installed bitsandbytes would fetch code with it at import: a planted one must stay unused."""
    (tmp_path / "kernels.py").write_text("def get_kernel(*a, **k):\n    raise SystemExit('fetched!')\n")
    code = "import minigrpo.policy, sys, kernels; print(kernels.__file__)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == str(tmp_path / "kernels.py")
    assert "fetched" not in done.stderr
    assert "kernels" not in done.stderr


def test_the_token_budget_does_not_hang_on_free_memory(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder)
    budget = memory.token_budget(policy.causal_lm.config, policy.device)
    assert budget == memory.LARGEST["cpu"]
    assert budget & (budget - 1) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "set_before", "expected"),
    [
        ("import minigrpo", {}, "1000"),
        ("import minigrpo", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import minigrpo", {"OMP_WAIT_POLICY": "passive"}, "None"),
        ("import torch, minigrpo", {}, "torch was imported before minigrpo"),
    ],
)
def test_idle_threads_do_not_spin(code: str, set_before: dict[str, str], expected: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code += "; import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | set_before, capture_output=True, text=True, check=True
    )
    assert expected in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["bert", "t5", "no type", "no tokenizer"])
def test_folders_that_hold_no_causal_model_are_refused(kind: str, tiny_folder: Path, tmp_path: Path) -> None:
    import json
    import shutil

    shutil.copytree(tiny_folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    if kind == "no tokenizer":
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (tmp_path / file).unlink()
    elif kind == "no type":
        del config["model_type"]
    else:
        config["model_type"] = kind
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="cannot be loaded|a way minigrpo does not know"):
        tiny_policy(tmp_path)


@pytest.mark.parametrize("kind", ["recurrent_gemma", "gpt_oss"])
def test_models_that_our_attention_does_not_fit_are_left_to_the_oracle(kind: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = dict(
        vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, head_dim=8,
        num_key_value_heads=2, initializer_range=0.2, num_local_experts=2, num_experts_per_tok=1, lru_width=32,
        pad_token_id=257, eos_token_id=257, bos_token_id=256,
    )  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes)).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    policy = tiny_policy(tmp_path, lora_targets=["q_proj"])
    assert not policy.native
    assert not policy.packed
