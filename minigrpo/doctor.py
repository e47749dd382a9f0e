"""What this machine has for training: versions, device, threads, and what to mend."""

import os
import platform
from typing import Any

from minigrpo.runfolder.folder import version

PACKAGES = ("torch", "transformers", "peft", "bitsandbytes", "safetensors", "gradio", "trl", "unsloth")


def examine() -> dict[str, Any]:
    """{versions, device, findings: [{name, message, fix}]}."""
    import torch

    from minigrpo.policy import hf, memory

    device = hf.pick_device()
    about = {
        "kind": device.type,
        "name": torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine(),
        "dtype": str(hf.pick_dtype(device)).removeprefix("torch."),
        "quant": "nf4" if device.type == "cuda" else "none",
        "memory": memory.total(device),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT"),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
    }
    versions = {"python": platform.python_version(), **{p: version(p) for p in ("minigrpo", *PACKAGES)}}
    return {"versions": versions, "device": about, "findings": [*_of_gpu(), *_of_threads(about)]}


def _finding(name: str, message: str, fix: str | None) -> dict[str, str | None]:
    return {"name": name, "message": message, "fix": fix}


def _of_gpu() -> list[dict[str, str | None]]:
    import torch

    found = []
    if not torch.cuda.is_available() and _nvidia():
        build = "a CPU build" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
        fix = (
            "uv pip install --torch-backend=auto --reinstall torch"
            if torch.version.cuda is None
            else "update the NVIDIA driver"
        )
        found.append(
            _finding(
                "gpu unused", f"there is an NVIDIA GPU, but torch {torch.__version__} ({build}) cannot use it", fix
            )
        )
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        built = [a for a in torch.cuda.get_arch_list() if a.startswith("sm_")]
        if built and not _runs_on(major, minor, built):
            message = (
                f"torch {torch.__version__} is not built for this card (sm_{major}{minor}; it has {', '.join(built)})"
            )
            found.append(
                _finding("card not supported", message, "install a torch build for this card, see pytorch.org")
            )
    if version("bitsandbytes") is None:
        found.append(
            _finding("no 4-bit", "bitsandbytes is not installed: quant=nf4 cannot run", "pip install bitsandbytes")
        )
    return found


def _runs_on(major: int, minor: int, built: list[str]) -> bool:
    """Whether code built for `built` runs on a card: the same major number, and no newer minor one."""
    codes = [int(a.removeprefix("sm_").rstrip("af")) for a in built]
    return any(c // 10 == major and c % 10 <= minor for c in codes)


def _of_threads(about: dict[str, Any]) -> list[dict[str, str | None]]:
    if about["kind"] != "cpu" or platform.system() != "Linux":
        return []
    if about["GOMP_SPINCOUNT"] is None and about["OMP_WAIT_POLICY"] is None:
        return [
            _finding(
                "threads", "idle threads spin: one busy neighbour can slow a step 70-fold", "export GOMP_SPINCOUNT=1000"
            )
        ]
    return []


def _nvidia() -> bool:
    """Whether an NVIDIA GPU is there, asked without torch."""
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidia0")
