"""The result of the pipeline: photos, their tags, and the distances between tags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.lab.dataset import Dataset
from experiments.lab.files import read_npz, write_npz
from experiments.lab.sparse import from_lists
from wassloss import SparseTarget
from wassloss.ground import Embedding

_ARRAYS = ("photos", "urls", "tag_counts", "tags", "train", "label_names", "label_photos", "report")


@dataclass(frozen=True, repr=False, eq=False)
class TagSample:
    """Sampled photos with their tags; without features, which need the images.

    Attributes:
        photos: photo numbers, int64 `(n,)`; those of the train part come first.
        urls: address of each photo when the metadata were made.
        tag_counts, tags: the number of tags per photo, and their ids, concatenated.
        train: number of photos in the train part; the others are the test part.
        label_names: the tags, most frequent first.
        label_photos: number of photos with each tag in the metadata.
        metric: distances between the tags' unit vectors.
        report: counts of the passes, as text.
    """

    photos: NDArray[np.int64]
    urls: tuple[str, ...]
    tag_counts: NDArray[np.int64]
    tags: NDArray[np.int64]
    train: int
    label_names: tuple[str, ...]
    label_photos: NDArray[np.int64]
    metric: Embedding
    report: str

    def __len__(self) -> int:
        return len(self.photos)

    def __repr__(self) -> str:
        return (
            f"TagSample({self.train} train and {len(self) - self.train} test photos, "
            f"{len(self.label_names)} tags)"
        )

    @property
    def target(self) -> SparseTarget:
        """The tags of each photo, which share a mass of 1."""
        return from_lists(self.tag_counts, self.tags)

    def with_features(self, features: Mapping[int, Any] | NDArray[Any]) -> Dataset:
        """Return the data set to train on.

        Args:
            features: one row per photo, in order; or rows by photo number, where photos without
                one, which Flickr may have removed, are left out.
        """
        n = len(self)
        if isinstance(features, Mapping):
            rows = [i for i, photo in enumerate(self.photos.tolist()) if photo in features]
            if not rows:
                raise ValueError(f"features must have some of the {n} photos, got none of them")
            table = np.stack([np.asarray(features[int(self.photos[i])]) for i in rows])
        else:
            rows, table = list(range(n)), np.asarray(features)
            if table.ndim != 2 or len(table) != n:
                raise ValueError(f"features must have shape ({n}, features), got {table.shape}")
        chosen = torch.tensor(rows)
        target = self.target
        missing = n - len(rows)
        left_out = f" {missing} photos without features are left out." if missing else ""
        return Dataset(
            torch.from_numpy(table.astype(np.float32)),
            SparseTarget(target.indices[chosen], target.weights[chosen]),
            label_names=self.label_names,
            parts={"train": chosen < self.train, "test": chosen >= self.train},
            metric=self.metric,
            name="yfcc tags",
            provenance=f"YFCC100M (Thomee et al. 2016), tags as in Frogner et al. 2015.{left_out}",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as .npz, atomically."""
        arrays: dict[str, NDArray[Any]] = {name: np.array(getattr(self, name)) for name in _ARRAYS}
        write_npz(path, {**arrays, "vectors": self.metric.vectors.cpu().numpy()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TagSample:
        """Read what :meth:`save` wrote."""
        try:
            arrays = read_npz(path)
            names = tuple(arrays["label_names"].tolist())
            return cls(
                arrays["photos"],
                tuple(arrays["urls"].tolist()),
                arrays["tag_counts"],
                arrays["tags"],
                int(arrays["train"]),
                names,
                arrays["label_photos"],
                Embedding(arrays["vectors"], labels=names),
                str(arrays["report"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{os.fspath(path)} is not a sample of tags: {error}") from error
