"""How many tokens fit into one micro-batch."""

import os
from typing import Any

import torch

LARGEST = {"cpu": 2048, "cuda": 16384, "mps": 4096}  # beyond it a device gains no speed


def token_budget(config: Any, device: torch.device) -> int:
    """Tokens per micro-batch, a power of two.

    Derived from the memory the device has in all, never from what is free at the moment: two runs of one seed must
    split alike, or their sums differ in the last bit.
    """
    text = config.get_text_config()
    h, inner = text.hidden_size, getattr(text, "intermediate_size", 4 * text.hidden_size)
    per_token = text.num_hidden_layers * (60 * h + 16 * inner)  # bytes of activations kept for the backward pass
    budget = 512
    while budget * 2 * per_token <= total(device) // 4 and budget < LARGEST[device.type]:
        budget *= 2
    return budget


def peak(device: torch.device) -> float:
    """Peak memory of this process in bytes: the device's where it has its own, else resident memory."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return float(torch.mps.driver_allocated_memory())
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if os.uname().sysname == "Darwin" else used * 1024)


def total(device: torch.device) -> int:
    """All the memory of a device, in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 8 << 30
