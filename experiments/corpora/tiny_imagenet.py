"""Tiny ImageNet at 32 × 32 pixels, and the taxonomy of its 200 classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.corpora.hypernyms import without_single_children
from experiments.corpora.lookup import find

SIDE, TILES = 32, (20, 25)  # side of an image; rows and columns of a mosaic


@dataclass(frozen=True)
class TinyImageNet:
    """Images `(n, 3, 32, 32)`, as bytes, with class ids, in two parts, and the paths of classes.

    In `train`, the 500 images of each class are contiguous.
    """

    train: Tensor
    test: Tensor
    test_classes: Tensor
    paths: tuple[tuple[str, ...], ...]


def tiny_imagenet() -> TinyImageNet:
    """Read the mosaics of ``tiny-imagenet/`` in ``$WASSLOSS_DATA`` or the user's cache."""
    folder = find("tiny-imagenet", "wnids.txt").parent
    names = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    place = {name: i for i, name in enumerate(names)}
    train = torch.cat([_tiles(folder / "train" / f"{name}.jpg") for name in names])
    test = torch.cat([_tiles(path) for path in sorted((folder / "val").glob("val_*.jpg"))])
    labels = (folder / "val" / "labels.txt").read_text(encoding="utf-8").split()
    words = dict(
        line.split("\t", 1)
        for line in (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    )
    return TinyImageNet(
        train,
        test[: len(labels)],
        torch.tensor([place[name] for name in labels]),
        class_paths(folder / "imagenet_isa.txt", names, words),
    )


def class_paths(
    edges: Path, names: list[str], words: dict[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Paths from the root down to each class, without notions that have a single child."""
    parent: dict[str, str] = {}
    for line in edges.read_text(encoding="utf-8").splitlines():
        above, below = line.split()
        parent.setdefault(below, above)
    paths = []
    for name in names:
        path = [name]
        while path[-1] in parent:
            path.append(parent[path[-1]])
        paths.append(path[::-1])
    return tuple(
        (*path[:-1], words.get(path[-1], path[-1])) for path in without_single_children(paths)
    )


def _tiles(path: Path) -> Tensor:
    """Return the images of a mosaic, `(500, 3, 32, 32)`."""
    from PIL import Image

    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    rows, columns = TILES
    if pixels.shape != (rows * SIDE, columns * SIDE, 3):
        raise ValueError(
            f"{path} must be a mosaic of {columns} × {rows} images of {SIDE} pixels, got "
            f"{pixels.shape[1]} × {pixels.shape[0]} pixels"
        )
    tiles = torch.from_numpy(pixels.copy()).reshape(rows, SIDE, columns, SIDE, 3)
    return tiles.permute(0, 2, 4, 1, 3).reshape(rows * columns, 3, SIDE, SIDE)
