"""The examples of docs/integrations.md, each with its library."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

# torch's warnings about itself: Lightning and the exporter use its older classes of trees.
torch_about_itself = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec")
FOLDER = Path(__file__).parents[2] / "examples" / "integrations"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    """Import an example as if it were run from its folder; skip if its library is missing."""
    monkeypatch.syspath_prepend(FOLDER)

    def load(name: str, *needed: str) -> ModuleType:
        for library in needed:
            pytest.importorskip(library, reason=f"needs {library}: pip install --group recipes")
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def test_pytorch_loop(example) -> None:
    before, after = example("pytorch_loop").main(epochs=10)
    assert after < 0.8 * before


@torch_about_itself
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The 'val_dataloader' does not have many workers")
def test_lightning_module(example) -> None:
    before, after = example("lightning_module", "lightning").main(epochs=6)
    assert after < 0.8 * before


def test_hugging_face_trainer(example, tmp_path: Path) -> None:
    before, after = example("hugging_face_trainer", "transformers", "accelerate").main(
        str(tmp_path)
    )
    assert after < 0.8 * before


def test_numbers_in_a_loop(example) -> None:
    before, after = example("numbers_pytorch_loop").main(epochs=40)
    assert after < 0.2 * before


@torch_about_itself
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_numbers_with_lightning(example) -> None:
    before, after = example("numbers_lightning", "lightning").main(epochs=20)
    assert after < 0.2 * before


def test_numbers_with_trainer(example, tmp_path: Path) -> None:
    before, after = example("numbers_trainer", "transformers", "accelerate").main(
        str(tmp_path), epochs=20
    )
    assert after < 0.2 * before


def test_a_head_without_logits_with_trainer(example, tmp_path: Path) -> None:
    before, after = example("head_trainer", "transformers", "accelerate").main(
        str(tmp_path), epochs=20
    )
    assert after < 0.2 * before


def test_numbers_with_trl(example, tmp_path: Path) -> None:
    before, after = example("numbers_trl", "trl").main(str(tmp_path), epochs=20)
    assert after < 0.2 * before


def test_scikit_learn_search(example) -> None:
    best, off = example("scikit_learn_search").main()
    assert set(best) == {
        "wassersteinclassifier__kl_weight",
        "wassersteinclassifier__alpha",
    }
    assert off < 2.5


def test_torchmetrics_collection(example) -> None:
    in_batches, at_once = example("torchmetrics_collection", "torchmetrics").main()
    assert {name: float(value) for name, value in in_batches.items()} == pytest.approx(
        at_once, rel=1e-6
    )


@torch_about_itself
def test_onnx_export(example, tmp_path: Path) -> None:
    loaded = example("onnx_export", "onnx", "onnxscript", "onnxruntime")
    expected, answer = loaded.main(tmp_path / "grades.onnx")
    assert answer.shape == (142, 10)
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
