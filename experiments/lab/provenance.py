"""Record where and with what a result was computed."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import wassloss

_PACKAGES = ("torch", "numpy", "scipy", "POT", "matplotlib")


def versions() -> dict[str, str]:
    """Versions of Python, this package and those that affect the numbers."""
    found = {"python": platform.python_version(), "wassloss": wassloss.__version__}
    return found | {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def machine() -> dict[str, Any]:
    """Processor, cores, threads, and GPU if there is one."""
    facts: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "torch_threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
