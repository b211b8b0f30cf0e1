"""Describe the machine and the versions that were measured."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = (
    "wassloss", "torch", "numpy", "scipy", "POT", "geomloss", "ott-jax", "jax", "jaxlib",
    "mdot-tnt", "flash-sinkhorn", "curegot",
)  # fmt: skip


def describe(device: str) -> dict[str, str | int | float]:
    facts: dict[str, str | int | float] = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "torch_threads": torch.get_num_threads(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if device == "cuda":
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def memory_gigabytes(device: str) -> float:
    if device == "cuda":
        return torch.cuda.mem_get_info()[1] / 1e9
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
