"""A user's first steps, in an environment with only the wheel and its dependencies.

Run by `make smoke` with that environment's Python, which has no pytest: `smoke.py core` where the
wheel was installed alone, `smoke.py app` where it was installed as `wassloss[app]`.
"""

import contextlib
import importlib.metadata
import importlib.util
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

CORE = {"numpy", "pot", "safetensors", "scikit-learn", "scipy", "torch"}
EXTRAS = ("lightning", "matplotlib", "numba", "onnxruntime", "pandas", "skrub", "torchmetrics")
COMMAND = Path(sys.executable).with_name("wassloss")


def run(*words: object, fails: bool = False) -> str:
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [str(word) for word in words], cwd=directory, capture_output=True, text=True
        )
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, said
    return said


def the_wheel_asks_for_the_core_alone() -> None:
    needs = importlib.metadata.requires("wassloss") or []
    core = {re.split(r"[^\w-]", need)[0].lower() for need in needs if "extra ==" not in need}
    assert core == CORE, core
    assert not [name for name in EXTRAS if importlib.util.find_spec(name)]


def it_is_the_installed_package() -> None:
    import wassloss as wl

    assert "site-packages" in wl.__file__, wl.__file__
    assert wl.__version__ == importlib.metadata.version("wassloss")
    assert Path(wl.__file__).with_name("py.typed").exists()


def the_wheel_is_for_this_platform_and_every_python() -> None:
    lines = (importlib.metadata.distribution("wassloss").read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")]
    assert tags
    for tag in tags:
        assert tag.startswith("py3-none-"), tag
        assert tag != "py3-none-any", "built without the compiled core"


def the_compiled_core_runs() -> None:
    import wassloss as wl
    from wassloss.native import library

    assert library.available()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        wl.show_config()
    assert "compiled core  yes" in said.getvalue(), said.getvalue()
    folder = Path(library.__file__).parent
    sources = [path.name for path in folder.iterdir() if path.suffix in (".cpp", ".hpp", ".h")]
    assert not sources, sources


def a_loss_has_a_gradient() -> None:
    import torch

    import wassloss as wl

    logits = torch.randn(32, 10, requires_grad=True)
    for target in (torch.randint(10, (32,)), torch.rand(32, 10).softmax(1)):
        logits.grad = None
        wl.WassersteinLoss(wl.ground.Ordinal(10), kl_weight=0.1, normalize_cost=False)(
            logits, target
        ).backward()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
        assert logits.grad.abs().sum() > 0
    log_measure = torch.zeros(4, 64, requires_grad=True)
    wl.RelaxedWassersteinLoss(wl.ground.Grid((8, 8)), gamma=2.0, normalize_cost=False)(
        log_measure, torch.rand(4, 64) + 0.1
    ).backward()
    assert log_measure.grad is not None
    assert log_measure.grad.isfinite().all()


def an_exact_distance_is_exact() -> None:
    import torch

    import wassloss as wl

    h, y = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.0, 0.25, 0.75]])
    assert abs(wl.wasserstein(h, y, wl.ground.Ordinal(3)).item() - 1.25) < 1e-6
    table = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    assert abs(wl.wasserstein(h, y, table).item() - 1.25) < 1e-6  # the same through POT
    assert bool(wl.solve(h, y, table, epsilon=0.1).converged.all())


def a_classifier_fits() -> None:
    from sklearn.datasets import load_iris

    import wassloss as wl

    features, classes = load_iris(return_X_y=True)
    classifier = wl.WassersteinClassifier("ordinal").fit(features, classes)
    assert classifier.score(features, classes) > 0.9


def the_data_set_came_along() -> None:
    import wassloss as wl

    data = wl.datasets.load_clipart()
    assert len(data.train) > 1000
    assert data.metric is not None
    assert len(data.metric.nearest("dog", 3)) == 3


def the_command_says_what_it_needs() -> None:
    assert 'pip install "wassloss[app]"' in run(COMMAND, "--help", fails=True)


def the_command_has_help() -> None:
    said = run(COMMAND, "--help")
    for word in ("train", "evaluate", "predict", "report", "metric", "demo"):
        assert word in said, said
    assert run(COMMAND, "--version").split() == [
        "wassloss",
        importlib.metadata.version("wassloss"),
    ]


def a_metric_is_shown() -> None:
    assert "dog" in run(COMMAND, "metric", "show", "clipart", "--near", "dog")


def the_demo_ends_in_a_report() -> None:
    assert "report.html" in run(COMMAND, "demo", "--quick", "--seeds", 1)


CHECKS: dict[str, list[Callable[[], None]]] = {
    "core": [
        the_wheel_asks_for_the_core_alone,
        it_is_the_installed_package,
        the_wheel_is_for_this_platform_and_every_python,
        the_compiled_core_runs,
        a_loss_has_a_gradient,
        an_exact_distance_is_exact,
        a_classifier_fits,
        the_data_set_came_along,
        the_command_says_what_it_needs,
    ],
    "app": [the_command_has_help, a_metric_is_shown, the_demo_ends_in_a_report],
}


def main(stage: str) -> None:
    names = ("numpy", "scipy", "scikit-learn", "POT", "torch")
    with_what = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    sys.stdout.write(f"Python {sys.version.split()[0]}, {with_what}\n")
    for check in CHECKS[stage]:
        check()
        sys.stdout.write(f"  {check.__name__.replace('_', ' ')}\n")
    sys.stdout.write(f"{len(CHECKS[stage])} passed, 0 failed\n")


if __name__ == "__main__":
    main(sys.argv[1])
