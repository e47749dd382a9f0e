"""Recounts a run's held-out accuracy with plain transformers and peft: python benchmarks/recount.py RUN.

Only the questions come from minigrpo; prompts, decoding and the last number in the text are done here, independently.
"""

import json
import re
import sys
from pathlib import Path

import torch
import yaml
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from minigrpo.tasks.load import load

run = Path(sys.argv[1])
config = yaml.safe_load((run / "config.yaml").read_text())
folder = json.loads((run / "run.json").read_text())["base"]["path"]
tokenizer = AutoTokenizer.from_pretrained(run / "adapter")
base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
model = PeftModel.from_pretrained(base, run / "adapter").eval()
limit = config["eval_max_tokens"] or config["max_tokens"]
examples = load(config["task"], "test", config["seed"])[: config["eval_n"]]


def right(example):
    messages = [{"role": "user", "content": example.prompt}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        out = model.generate(**ids, max_new_tokens=limit, do_sample=False, pad_token_id=tokenizer.pad_token_id)
    text = tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    found = re.findall(r"-?\d+", text.replace(",", ""))
    return bool(found) and int(found[-1]) == int(example.answer)


adapter = sum(map(right, examples)) / len(examples)
with model.disable_adapter():
    before = sum(map(right, examples)) / len(examples)
print(json.dumps({"n": len(examples), "base": before, "adapter": adapter}))
