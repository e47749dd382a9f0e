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


tokenizer.padding_side = "left"


def share_right():
    right = 0
    for i in range(0, len(examples), 16):
        some = examples[i : i + 16]
        talks = [[{"role": "user", "content": e.prompt}] for e in some]
        options = {"add_generation_prompt": True, "padding": True, "return_tensors": "pt", "return_dict": True}
        ids = tokenizer.apply_chat_template(talks, **options)
        with torch.no_grad():
            out = model.generate(**ids, max_new_tokens=limit, do_sample=False, pad_token_id=tokenizer.pad_token_id)
        for e, row in zip(some, out[:, ids["input_ids"].shape[1] :], strict=True):
            found = re.findall(r"-?\d+", tokenizer.decode(row, skip_special_tokens=True).replace(",", ""))
            right += bool(found) and int(found[-1]) == int(e.answer)
    return right / len(examples)


adapter = share_right()
with model.disable_adapter():
    before = share_right()
print(json.dumps({"n": len(examples), "base": before, "adapter": adapter}))
