"""What the tests of chat share: a finished tiny run whose adapter says BLUE, and RED at its first checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from session_ground import quiet

from minigrpo import config as configs
from minigrpo import events, session
from minigrpo.policy.policy import Policy
from minigrpo.types import Example

STEPS = 1000  # of plain cross-entropy at most; some 100 do


def teach(policy: Policy, renderer: Any, word: str) -> None:
    """Trains the adapter to answer whatever it is asked with one word."""
    (stop,) = policy.tokenizer("<|im_end|>", add_special_tokens=False)["input_ids"]
    answer = [*policy.tokenizer(word, add_special_tokens=False)["input_ids"], stop]
    questions = ["What is 7 + 5?", "hello", "3 + 4 = ? Reply with only the number.", "word " * 12, "Why?", "{}[] éß 漢"]
    prompts = [renderer.encode(Example("q", q, None)) for q in questions]
    optimizer = torch.optim.AdamW(policy.trainable(), lr=1e-2)
    right = 0
    for step in range(STEPS):
        prompt = prompts[step % len(prompts)]
        ids = torch.tensor([[*prompt, *answer]])
        logits = policy.causal_lm(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        right = right + 1 if logits.argmax(-1).tolist() == answer else 0
        if right == 5 * len(prompts):
            return
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.tensor(answer)).backward()
        optimizer.step()
    raise AssertionError(f"{STEPS} steps did not teach it {word}")


def outspoken(folder: Path, tiny: Path) -> Path:
    """The tiny model, able to be sure of a token, of the stop token too, and to go on for long enough to be stopped."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny)
    rows = model.get_input_embeddings().weight.data
    rows *= 3
    rows[257] = 0.6 * torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(1))
    model.config.max_position_embeddings = 4096
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
    return folder


def make(folder: Path, model: Path) -> Path:
    """The run: its checkpoint of step 2 says RED, that of step 4 and the final adapter say BLUE."""
    values = {
        "model": str(model), "dtype": "fp32", "task": "arithmetic(high=6)", "reward": ["text()"], "steps": 4,
        "prompts_per_step": 2, "group_size": 2, "max_tokens": 8, "eval_n": 3, "save_every": 2, "keep_last": 5,
        "lr": 1e-9, "out": str(folder),
    }  # fmt: skip

    def watch(s: session.Session) -> None:
        tell = s.tell

        def told(event: events.Event) -> None:
            tell(event)
            if isinstance(event, events.Step) and event.step == 1:
                teach(s.policy, s.renderer, "RED")
            if isinstance(event, events.Saved) and event.step == 2:
                teach(s.policy, s.renderer, "BLUE")

        s.tell = told

    run, code = session.start(configs.build(values), quiet(), around=watch)
    assert code == 0
    return run


def emptied(run: Path, name: str) -> Path:
    """A copy whose adapter has never learnt: B is zero."""
    copy = Path(shutil.copytree(run, run.parent / name))
    path = copy / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file({k: v * 0 if "lora_B" in k else v for k, v in tensors.items()}, path, {"format": "pt"})
    return copy


@pytest.fixture(scope="session")
def painted(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    """The folder of the runs `blue` and `zero`."""
    root = tmp_path_factory.mktemp("painted")
    model = outspoken(tmp_path_factory.mktemp("outspoken"), tiny_folder)
    emptied(make(root / "blue", model), "zero")
    return root
