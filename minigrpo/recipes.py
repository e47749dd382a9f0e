"""One entry per paper, made of text: what differs from the default. `beta` is a number, the rest are specs."""

from typing import Any

SEAMS = ("sampler", "plan", "shaping", "keep", "advantage", "reweight", "aggregate", "ratio", "surrogate", "kl")

DEFAULT: dict[str, Any] = {
    "sampler": "uniform()",
    "plan": "parallel()",
    "shaping": "plain()",
    "keep": "every()",
    "advantage": "group_norm()",
    "reweight": "unchanged()",
    "aggregate": "token_mean()",
    "ratio": "token()",
    "surrogate": "clip()",
    "kl": "k3()",
    "beta": 0.0,
}

RECIPES: dict[str, dict[str, Any]] = {
    "default": {"help": "group mean and std, clip 0.2, token mean, no KL penalty"},
    "grpo": {"help": "GRPO as in DeepSeekMath (arXiv 2402.03300)", "aggregate": "seq_mean()", "beta": 0.04},
    "dr_grpo": {
        "help": "Dr. GRPO (arXiv 2503.20783): no division by std or by length",
        "advantage": "centered()",
        "aggregate": "per_budget()",
    },
}
