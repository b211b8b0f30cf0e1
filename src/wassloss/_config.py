"""Report which optional parts are installed, and how slow losses are without them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import textwrap

WIDTH = 88

SLOW = "no: losses on a {} run as loops of torch operations, which takes {} times as long"
FACTOR_CPU = "18 to 45"  # class ids and five labels, K=1000, batch 100, one thread
# Without --no-cache-dir, pip would install the earlier wheel from its cache.
AGAIN = "pip install --force-reinstall --no-deps --no-cache-dir --no-binary wassloss wassloss"


def show_config() -> None:
    """Print versions, the available hardware, and which optional parts are installed.

    Losses are slower on a CPU without the compiled core, and on an NVIDIA GPU without Triton. The
    results are the same.

    >>> import wassloss as wl
    >>> wl.show_config()
    wassloss       ...
    Python         ...
    torch          ...
    threads        ...
    compiled core  ...
    GPU            ...
    Triton         ...
    """
    for name, value in found().items():
        lines = value.splitlines()
        wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH) or [""]]
        sys.stdout.write(f"{name:<13}  " + f"\n{'':15}".join(wrapped) + "\n")


def found() -> dict[str, str]:
    """The values that ``show_config`` prints, by name."""
    import torch

    from wassloss import __version__

    gpu = torch.cuda.is_available()
    return {
        "wassloss": __version__,
        "Python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "compiled core": _core(),
        "GPU": torch.cuda.get_device_name() if gpu else "no",
        "Triton": _version_of("triton") or (SLOW.format("GPU", "several") if gpu else "no"),
    }


def _core() -> str:
    from wassloss.native import library

    if library.available():
        return f"yes, {library.instructions()}"
    if library.PATH.exists():
        cause = f"{library.PATH} belongs to another release or system."
    else:
        cause = "It is built with the package if there is a C++ compiler."
    return "\n".join([f"{SLOW.format('CPU', FACTOR_CPU)}.", cause, "With a compiler, run", AGAIN])


def _version_of(package: str) -> str | None:
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # copied by hand, or under another name
        return "yes"
