"""Extract features of many images: in batches, resumable, with bad images listed at the end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.lab.files import read_npz, replacing, write_npz


class Extractor(Protocol):
    """Maps images to features.

    Attributes:
        name: identifies it, weights included; a run with another extractor is not resumed.
        size: height and width that images are scaled to.
    """

    name: str
    size: tuple[int, int]

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
        """Compute features `(n, features)` of images `(n, height, width, 3)`, RGB."""


@dataclass(frozen=True, eq=False, repr=False)
class Extraction:
    """Features of the images that could be read.

    Attributes:
        names: names of these images.
        features: float32 `(n, features)`.
        bad: for each other image, by name, why it could not be read.
    """

    names: tuple[str, ...]
    features: NDArray[np.float32]
    bad: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Extraction({self.features.shape[0]} images, {len(self.bad)} bad)"

    def by_number(self) -> dict[int, NDArray[np.float32]]:
        """Features of images that are named by numbers, for ``TagSample.with_features``."""
        return {int(name): row for name, row in zip(self.names, self.features, strict=True)}


def extract_features(
    images: Mapping[str, str | os.PathLike[str]],
    extractor: Extractor,
    folder: str | os.PathLike[str],
    *,
    batch_size: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Extraction:
    """Compute the features of images, resuming where an earlier call stopped.

    Each batch is written to ``folder`` once it is done, so that at most one is lost. An image that
    cannot be read does not stop the run; it is listed in ``bad``.

    Args:
        images: files by name.
        extractor: see :class:`Extractor`.
        folder: where to keep the batches.
        batch_size: images per batch.
        progress: called with the number of finished images and the total.
    """
    if not images or batch_size < 1:
        raise ValueError(
            "images must not be empty and batch_size at least 1, got "
            f"{len(images)} images and {batch_size}"
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    names = list(images)
    _check_plan(place / "plan.json", names, extractor, batch_size)
    bad: dict[str, str] = {}
    good: list[str] = []
    features: list[NDArray[np.float32]] = []
    for start in range(0, len(names), batch_size):
        these = names[start : start + batch_size]
        file = place / f"batch-{start // batch_size:06d}.npz"
        if not file.exists():
            write_npz(file, _batch(these, images, extractor))
        arrays = read_npz(file)
        wrong = arrays["bad"].tolist()
        bad |= {these[i]: why for i, why in enumerate(wrong) if why}
        good += [name for name, why in zip(these, wrong, strict=True) if not why]
        if len(arrays["features"]):
            features.append(arrays["features"])
        if progress is not None:
            progress(min(start + batch_size, len(names)), len(names))
    if not good:
        first = next(iter(bad.items()))
        raise ValueError(f"none of the {len(names)} images could be read; {first[0]}: {first[1]}")
    return Extraction(tuple(good), np.concatenate(features), bad)


def _batch(
    names: Sequence[str], images: Mapping[str, str | os.PathLike[str]], extractor: Extractor
) -> dict[str, NDArray[Any]]:
    pixels, wrong = [], []
    for name in names:
        read, why = _try_image(images[name], extractor.size)
        wrong.append(why)
        if read is not None:
            pixels.append(read)
    features: NDArray[Any] = np.zeros((0, 0), np.float32)
    if pixels:
        features = np.asarray(extractor(np.stack(pixels)), dtype=np.float32)
        if features.ndim != 2 or len(features) != len(pixels):
            raise ValueError(
                f"{extractor.name} must give features of shape ({len(pixels)}, features), got "
                f"{features.shape}"
            )
        finite = np.isfinite(features).all(1)
        rows = [i for i, why in enumerate(wrong) if not why]
        for i in np.flatnonzero(~finite).tolist():
            wrong[rows[i]] = "its features are not finite"
        features = features[finite]
    return {"features": features, "bad": np.array(wrong, np.str_)}


def _try_image(
    path: str | os.PathLike[str], size: tuple[int, int]
) -> tuple[NDArray[np.uint8] | None, str]:
    """Return an image, or the reason why it could not be read."""
    try:
        return read_image(path, size), ""
    # Pillow's errors for bad files; a decompression bomb has a class of its own.
    except Exception as error:
        if isinstance(error, ImportError):
            raise
        return None, " ".join(str(error).split()) or type(error).__name__


def read_image(path: str | os.PathLike[str], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Read an image of any mode as RGB `(height, width, 3)`: scaled, then cropped to its centre."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("images need Pillow: pip install --group experiments") from error
    height, width = size
    with Image.open(path) as image:
        fitted = ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.BICUBIC)
        return np.asarray(fitted, dtype=np.uint8)


def _check_plan(path: Path, names: list[str], extractor: Extractor, batch_size: int) -> None:
    plan = {
        "images": hashlib.sha256("\n".join(names).encode()).hexdigest(),
        "extractor": extractor.name,
        "size": list(extractor.size),
        "batch_size": batch_size,
    }
    if not path.exists():
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(plan), encoding="utf-8")
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    other = [key for key in plan if before.get(key) != plan[key]]
    if other:
        raise ValueError(
            f"{path.parent} holds features of another run, whose {', '.join(other)} differ; choose "
            "another folder"
        )
