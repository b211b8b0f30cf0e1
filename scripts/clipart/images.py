"""Turn drawings into the images that a network takes."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageChops

from experiments.corpora.features import Extractor, TorchExtractor

SIZE = 224
MARGIN = 0.04  # of the longer side, all around; found by comparing features with the file's own
WHITE = (255, 255, 255)
Image.MAX_IMAGE_PIXELS = None  # one drawing has 231 million, which Pillow would reject


def framed(png: bytes) -> Image.Image | None:
    """Return the drawing on white, cropped and centred in a square; None if it is blank."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # palettes with transparency
        drawing = Image.open(io.BytesIO(png)).convert("RGBA")
    page = Image.new("RGBA", drawing.size, (*WHITE, 255))
    page.alpha_composite(drawing)
    flat = page.convert("RGB")
    box = ImageChops.difference(flat, Image.new("RGB", flat.size, WHITE)).getbbox()
    if box is None:
        return None
    flat = flat.crop(box)
    side = round(max(flat.size) * (1 + 2 * MARGIN))
    square = Image.new("RGB", (side, side), WHITE)
    square.paste(flat, ((side - flat.width) // 2, (side - flat.height) // 2))
    return square.resize((SIZE, SIZE), Image.Resampling.BICUBIC)


def write_framed(drawings: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """Frame each drawing that is not blank and not framed yet; return the files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, png in drawings.items():
        # Names contain slashes and may be long.
        path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:20]}.png"
        if not path.exists():
            image = framed(png)
            if image is None:
                continue
            image.save(path)
        found[name] = path
    return found


def efficientnet_lite0(weights: Path) -> Extractor:
    """Load the network, from PyPI's ``efficientnet_lite_pytorch``, and its weights."""
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weights, weights_only=True))
    network.forward = network.extract_features  # the last map, which the extractor averages
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    scaling = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}
    return TorchExtractor(network, f"efficientnet-lite0 {digest}", **scaling)


def variants(
    names: list[str], features: np.ndarray, authors: Mapping[str, str], threshold: float
) -> np.ndarray:
    """Return a number for each drawing, shared by its variants.

    Drawings are variants if they lie in one folder, have the same author, and their names differ by
    a final number or a word such as ``bw``; or if the cosine between their centred features is
    above the threshold. The relation is made transitive.
    """
    parent = list(range(len(names)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[str, str, str], int] = {}
    for i, name in enumerate(names):
        folder, _, stem = name.rpartition("/")
        stem = re.sub(r"([_-](bw|r|s|l|c))?[_-]?\d*[a-z]?_*$", "", stem.lower())
        j = first.setdefault((folder, authors[name], stem), i)
        parent[root(i)] = root(j)
    unit = features - features.mean(0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for start in range(0, len(names), 512):
        for i, j in np.argwhere(unit[start : start + 512] @ unit.T > threshold).tolist():
            parent[root(start + i)] = root(j)
    return np.unique([root(i) for i in range(len(names))], return_inverse=True)[1]
