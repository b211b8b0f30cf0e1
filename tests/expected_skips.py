"""The skips that are allowed, with reasons and counts; any other skip fails the run.

The hooks that check this are in `tests/skip_check.py`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Packages without which tests may be skipped: those of the extras and groups of pyproject.toml, as
# they are imported. A mistyped import of anything else must not pass for an optional package.
OPTIONAL = {
    "accelerate", "cvxpy", "dask", "distributed", "gensim", "jinja2", "lightgbm", "lightning",
    "matplotlib", "ntloss", "numba", "onnx", "onnxruntime", "onnxscript",
    "pandas", "PIL", "pooch", "pyarrow", "rich", "safetensors", "skops", "skordinal", "skrub",
    "tokenizers", "torchmetrics", "tqdm", "transformers", "triton", "trl", "typer", "xgboost",
    "yaml",
}  # fmt: skip
# Packages that `make test` does not install.
EXTRA = {"geomloss", "jax", "monai", "ott", "rattler_build", "sphinx_gallery"}

# The fewest tests that may pass in a run of the whole suite, with all optional packages and
# without: about 10 % below the actual numbers.
FLOORS = {"full": 6000, "core": 3600}


@dataclass(frozen=True)
class Expected:
    """A reason to skip, where it applies, and how many tests may have it."""

    name: str
    pattern: str  # the whole reason, or its beginning
    true: Callable[[str], bool]  # takes the match of the pattern's group, "" without one
    most: int  # items in the whole suite; a skipped module counts as one

    def allows(self, reason: str) -> bool:
        found = re.match(self.pattern, reason)
        return found is not None and self.true(next(iter(found.groups()), "") or "")


def absent(names: str) -> bool:
    """Whether one of the named optional packages is not installed."""
    packages = {name.strip().split(".")[0] for name in names.split(",")}
    return packages <= OPTIONAL | EXTRA and any(not installed(name) for name in packages)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def no_gpu(_: str) -> bool:
    import torch

    return not torch.cuda.is_available()


def no_file(path: str) -> bool:
    folder = os.environ.get("WASSLOSS_DATA")
    return folder is None or not Path(folder, path).exists()


def no_folder(names: str) -> bool:
    return any(no_file(name) for name in names.split(" and "))


def setting(what: str) -> str | None:
    """`WASSLOSS_BROWSER` or `WASSLOSS_CORE`: "required" or "optional"."""
    return os.environ.get(f"WASSLOSS_{what}")


EXPECTED = [
    Expected("no GPU", "needs a CUDA device", no_gpu, 300),
    Expected("a GPU", "a GPU runs kernels", lambda _: not no_gpu(""), 5),
    Expected("no package", r"needs (\w+(?:, \w+)*)(?::|$)", absent, 400),
    Expected("no package", r"could not import '([\w.]+)': No module named", absent, 400),
    Expected("no data", r"\$WASSLOSS_DATA/(.+) is not there", no_file, 20),
    Expected("no data", r"(.+) is not in \$WASSLOSS_DATA", no_folder, 40),
    Expected("no browser", "no browser: none of", lambda _: setting("BROWSER") != "required", 10),
    Expected(
        "no compiled core", "needs the compiled core", lambda _: setting("CORE") == "optional", 1200
    ),
    Expected("no compiler", r"needs a C\+\+ compiler", lambda _: setting("CORE") == "optional", 10),
    Expected("scikit-learn's", "SCIPY_ARRAY_API is not set", lambda _: True, 5),
    Expected("scikit-learn's", "xfail: it fits y with negative entries", lambda _: True, 2),
    Expected("not POSIX", "needs POSIX", lambda _: os.name != "posix", 60),
    Expected("not Linux", "needs Linux", lambda _: sys.platform != "linux", 20),
    Expected("old Python", r"needs Python 3\.(\d+)", lambda m: sys.version_info < (3, int(m)), 10),
    Expected("sdist", "not in the sdist", lambda _: not Path(".github").exists(), 10),
]


def expected(reason: str) -> Expected | None:
    """The entry that allows a skip for this reason here."""
    return next((entry for entry in EXPECTED if entry.allows(reason)), None)


def floor() -> int:
    """The fewest tests that may pass in a run of the whole suite in this environment."""
    return FLOORS["full" if all(installed(name) for name in OPTIONAL) else "core"]
