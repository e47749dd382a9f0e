"""Where to begin: settings by what a machine has. What was measured says so, and so does what was not."""

from typing import Any

_SUMS: dict[str, Any] = {"model": "smollm2", "reward": ["number(lenient=True)"], "max_tokens": 16, "lr": 5e-4}
_WORDS: dict[str, Any] = {"task": "gsm8k()", "reward": ["number()"], "steps": 200, "prompts_per_step": 8, "lr": 1e-4}
_HUB = "Fetched from the hub. A rule of thumb: not measured on such a card."

PRESETS: list[dict[str, Any]] = [
    {
        "name": "Smoke test: CPU, about a minute",
        "say": "SmolLM2 and sums up to 9 + 9: shows that all works here, from the first step to the adapter.",
        "values": _SUMS | {
            "task": "arithmetic(high=9)", "steps": 6, "prompts_per_step": 4, "group_size": 6, "eval_n": 16,
            "log_tokens": 6,
        },
    },
    {
        "name": "CPU: SmolLM2 learns sums, 3 min",
        "say": "What the demo trains. Measured on 2 cores: 36 % of 77 held-out sums right before, 88 % after.",
        "values": _SUMS | {
            "task": "arithmetic(high=15, held_out=0.35)", "steps": 36, "prompts_per_step": 8, "group_size": 8,
            "eval_max_tokens": 32, "eval_n": 200,
        },
    },
    {
        "name": "8 GB GPU",
        "say": f"Qwen2.5 0.5B, grade-school word problems. {_HUB}",
        "values": _WORDS | {"model": "Qwen/Qwen2.5-0.5B-Instruct", "group_size": 8, "max_tokens": 256},
    },
    {
        "name": "12 GB GPU",
        "say": f"Qwen2.5 1.5B, grade-school word problems. {_HUB}",
        "values": _WORDS | {"model": "Qwen/Qwen2.5-1.5B-Instruct", "group_size": 8, "max_tokens": 300},
    },
    {
        "name": "24 GB GPU",
        "say": f"Qwen2.5 3B, grade-school word problems. {_HUB}",
        "values": _WORDS | {"model": "Qwen/Qwen2.5-3B-Instruct", "group_size": 16, "max_tokens": 400},
    },
]  # fmt: skip
