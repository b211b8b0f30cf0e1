"""Features of images: batches, resumed runs, bad images, ONNX and torch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from experiments.corpora.features import (
    OnnxExtractor,
    TorchExtractor,
    extract_features,
    timm_extractor,
    torchvision_extractor,
)
from experiments.corpora.features.extract import read_image
from experiments.corpora.features.torch_module import _load

PIL = pytest.importorskip("PIL.Image")


class MeanColour:
    """The mean of each colour, with a count of calls."""

    name = "mean colour"
    size = (8, 8)

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
        self.batches.append(len(images))
        return images.astype(np.float64).mean((1, 2))


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    paths = {}
    for i in range(7):
        paths[str(i)] = tmp_path / f"{i}.png"
        PIL.new("RGB", (20, 10 + i), (10 * i, 0, 255)).save(paths[str(i)])
    return paths


def test_batches(images: dict[str, Path], tmp_path: Path) -> None:
    extractor = MeanColour()
    seen: list[tuple[int, int]] = []
    found = extract_features(
        images, extractor, tmp_path / "f", batch_size=3, progress=lambda *n: seen.append(n)
    )
    assert extractor.batches == [3, 3, 1]
    assert seen == [(3, 7), (6, 7), (7, 7)]
    assert found.names == tuple("0123456")
    assert found.features.dtype == np.float32
    np.testing.assert_allclose(found.features[:, 0], 10 * np.arange(7))
    assert found.by_number()[4].tolist() == [40, 0, 255]
    assert repr(found) == "Extraction(7 images, 0 bad)"


def test_bad_images_are_listed(images: dict[str, Path], tmp_path: Path) -> None:
    images["2"].write_bytes(images["2"].read_bytes()[:60])  # cut short
    images["3"].write_text("<html>404</html>")
    images["5"].unlink()
    found = extract_features(images, MeanColour(), tmp_path / "f", batch_size=2)
    assert found.names == ("0", "1", "4", "6")
    np.testing.assert_allclose(found.features[:, 0], [0, 10, 40, 60])
    assert set(found.bad) == {"2", "3", "5"}
    assert all("\n" not in why and why for why in found.bad.values())
    with pytest.raises(ValueError, match="none of the 1 images could be read; 3: cannot identify"):
        extract_features({"3": images["3"]}, MeanColour(), tmp_path / "g")


def test_resumed(images: dict[str, Path], tmp_path: Path) -> None:
    class Stops(MeanColour):
        def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
            if len(self.batches) == 2:
                raise KeyboardInterrupt
            return super().__call__(images)

    with pytest.raises(KeyboardInterrupt):
        extract_features(images, Stops(), tmp_path / "f", batch_size=2)
    again = MeanColour()
    found = extract_features(images, again, tmp_path / "f", batch_size=2)
    assert again.batches == [2, 1]
    whole = extract_features(images, MeanColour(), tmp_path / "g", batch_size=2)
    np.testing.assert_array_equal(found.features, whole.features)
    with pytest.raises(ValueError, match="holds features of another run, whose batch_size differ"):
        extract_features(images, MeanColour(), tmp_path / "f", batch_size=3)


def test_not_finite(images: dict[str, Path], tmp_path: Path) -> None:
    class Divides(MeanColour):
        def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
            found = super().__call__(images)
            found[found[:, 0] == 30] = np.nan
            return found

    found = extract_features(images, Divides(), tmp_path / "f")
    assert found.bad == {"3": "its features are not finite"}
    assert "3" not in found.names


def test_wrong_shape(images: dict[str, Path], tmp_path: Path) -> None:
    class Flat(MeanColour):
        def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
            return super().__call__(images)[0]

    with pytest.raises(ValueError, match=r"mean colour must give features of shape \(7, features"):
        extract_features(images, Flat(), tmp_path / "f")
    with pytest.raises(ValueError, match="images must not be empty"):
        extract_features({}, MeanColour(), tmp_path / "f")


def test_modes_and_shapes(tmp_path: Path) -> None:
    for mode, colour in (("L", 9), ("RGBA", (9, 9, 9, 0)), ("P", 3), ("CMYK", (0, 0, 0, 0))):
        PIL.new(mode, (31, 17), colour).save(tmp_path / "x.tiff")
        assert read_image(tmp_path / "x.tiff", (8, 6)).shape == (8, 6, 3)


def test_torch(images: dict[str, Path], tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    extractor = TorchExtractor(
        module, "conv", size=(8, 8), mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)
    )
    found = extract_features(images, extractor, tmp_path / "f", batch_size=3)
    assert found.features.shape == (7, 4)
    pixels = torch.from_numpy(np.stack([read_image(p, (8, 8)) for p in images.values()]))
    expected = module(pixels.permute(0, 3, 1, 2).float() / 255).mean((2, 3))
    np.testing.assert_allclose(found.features, expected.detach().numpy(), atol=1e-6)


def test_onnx(images: dict[str, Path], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", float_, ["n", 3, 8, 6])],
        [helper.make_tensor_value_info("y", float_, ["n", 3, 8, 6])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    extractor = OnnxExtractor(path, mean=(0.0, 0.0, 0.5), std=(1.0, 1.0, 1.0))
    assert extractor.size == (8, 6)
    found = extract_features(images, extractor, tmp_path / "f")
    np.testing.assert_allclose(found.features[3], [30 / 255, 0, 0.5], rtol=1e-5)
    with pytest.raises(ValueError, match="output must be one of y, got 'z'"):
        OnnxExtractor(path, output="z")
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"model.onnx is not an ONNX model") as caught:
        OnnxExtractor(path)
    assert "\n" not in str(caught.value)


def test_weights_are_tensors_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    from safetensors.torch import save_file

    module = nn.Linear(2, 3)
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    fresh = nn.Linear(2, 3)
    _load(fresh, tmp_path / "w.safetensors")
    torch.testing.assert_close(fresh.weight, module.weight)
    torch.save(module.state_dict(), tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w.pth does not hold the model's weights"):
        _load(nn.Linear(2, 3), tmp_path / "w.pth")


@pytest.mark.parametrize("make", [timm_extractor, torchvision_extractor])
def test_what_is_not_installed_is_named(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("timm", "torchvision"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"this needs t.*: pip install"):
        make("resnet18", "absent.safetensors")
