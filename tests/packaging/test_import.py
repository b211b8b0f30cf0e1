"""`import wassloss` imports nothing heavy, a loss little more than torch; the rest on demand."""

import subprocess
import sys

import pytest

import wassloss as wl

# Each takes 0.1 s or more to import, or belongs to an extra.
LATER = [
    "IPython",
    "jax",
    "joblib",
    "lightning",
    "matplotlib",
    "numba",
    "onnxruntime",
    "ot",
    "pandas",
    "PIL",
    "platformdirs",
    "pooch",
    "pyarrow",
    "rich",
    "safetensors",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
    "sklearn",
    "torchmetrics",
    "transformers",
    "typer",
]


def imported_by(code: str) -> set[str]:
    """The modules of `LATER` that `code` imports but torch alone does not."""
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        f"{code}\nprint(*({set(LATER)!r} & set(sys.modules)) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_imports_nothing_that_is_heavy() -> None:
    assert imported_by("import wassloss") == set()


def test_importing_does_not_even_import_torch() -> None:
    """The command line must handle Ctrl-C before it imports torch, which takes seconds."""
    code = (
        "import sys, wassloss, wassloss.app.cli; "
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_loss_needs_no_more_than_its_solver() -> None:
    code = """
import wassloss as wl
logits = torch.zeros(2, 3, requires_grad=True)
target = wl.SparseTarget(torch.tensor([[0, 1]] * 2), torch.full((2, 2), 0.5))
wl.WassersteinLoss(wl.ground.Ordinal(3))(logits, target).backward()
"""
    assert not imported_by(code) & {"pandas", "sklearn", "pyarrow", "matplotlib", "ot"}


def test_a_fit_needs_nothing_optional() -> None:
    code = """
import wassloss as wl
wl.WassersteinClassifier("ordinal").fit([[0.0], [1.0], [2.0]], [0, 1, 2])
wl.WassersteinClassifier("ordinal", solver="adam", max_iter=1).fit([[0.0], [1.0]], [0, 1])
"""
    assert not imported_by(code) & {"lightning", "safetensors"}


def test_every_public_name_is_there() -> None:
    assert set(wl.__all__) <= set(dir(wl))
    for name in wl.__all__:
        assert getattr(wl, name) is not None
    starred: dict[str, object] = {}
    exec("from wassloss import *", starred)
    assert set(wl.__all__) <= set(starred)
    assert wl.WassersteinClassifier is wl.estimators.WassersteinClassifier


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wassloss' has no attribute 'Wasserstien'"):
        _ = wl.Wasserstien
    assert not hasattr(wl, "sklearn")


@pytest.mark.slow  # processor time, because wall time depends on other processes
def test_importing_takes_at_most_half_as_long_again_as_torch() -> None:
    resource = pytest.importorskip("resource", reason="needs POSIX: processor time")

    def seconds(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(seconds("import torch"), seconds("import wassloss")) for _ in range(7)]
    torch_alone, ours = (min(times) for times in zip(*pairs, strict=True))
    assert ours < 1.5 * torch_alone
