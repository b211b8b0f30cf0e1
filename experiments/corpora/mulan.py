"""Multi-label data sets of the Mulan library: ARFF files, and XML with the names of the labels."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Only used for content without declarations: see _label_names.
from xml.etree import ElementTree  # nosec B405

import numpy as np
import torch
from scipy import sparse

from experiments.corpora.arff import read_arff
from experiments.corpora.lookup import find, read_bytes
from experiments.lab.dataset import Dataset
from experiments.lab.sparse import from_lists


def mulan(name: str = "delicious", *, label_prefix: str = "TAG_") -> Dataset:
    """A data set of Mulan by name, from ``NAME/`` of ``$WASSLOSS_DATA`` or of the user's cache.

    The folder holds ``NAME-train.arff`` and ``NAME-test.arff``, gzipped or not, and ``NAME.xml``.
    Delicious has 500 words as features and 983 tags.
    """
    arff = {
        part: find(name, f"{name}-{part}.arff.gz", f"{name}-{part}.arff")
        for part in ("train", "test")
    }
    return read_mulan(arff, find(name, f"{name}.xml"), label_prefix=label_prefix, name=name)


def read_mulan(
    arff: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]],
    xml: str | os.PathLike[str],
    *,
    label_prefix: str = "",
    name: str = "",
) -> Dataset:
    """Read a multi-label data set; examples without labels are left out, and counted.

    The labels of an example share a mass of 1. Features become dense.

    Args:
        arff: one file, or one file per part.
        xml: the file with the names of the labels.
        label_prefix: prefix to remove from the labels' names.
        name: name of the data set.
    """
    labels = _label_names(xml)
    files = arff if isinstance(arff, Mapping) else {"": arff}
    read = {part: read_arff(path) for part, path in files.items()}
    attributes = next(iter(read.values())).names
    for part, one in read.items():
        if one.names != attributes:
            raise ValueError(f"{os.fspath(files[part])} must have the attributes of the first file")
    missing = [label for label in labels if label not in attributes]
    if missing:
        raise ValueError(f"{os.fspath(xml)}: label {missing[0]!r} is no attribute of the ARFF file")
    place = {attribute: i for i, attribute in enumerate(attributes)}
    columns = [place[label] for label in labels]
    others = np.setdiff1d(np.arange(len(attributes)), columns)
    values = sparse.csr_array(sparse.vstack([one.values for one in read.values()]))
    tags = sparse.csr_array(values[:, columns])
    tags.sort_indices()
    some = np.flatnonzero(np.diff(tags.indptr))
    if len(some) == 0:
        raise ValueError(f"{os.fspath(xml)}: no example has any of its {len(labels)} labels")
    owner = np.repeat(np.arange(len(read)), [one.values.shape[0] for one in read.values()])[some]
    tags, unlabelled = tags[some], tags.shape[0] - len(some)
    return Dataset(
        torch.from_numpy(values[some][:, others].toarray()),
        from_lists(np.diff(tags.indptr), tags.indices),
        label_names=tuple(label.removeprefix(label_prefix) for label in labels),
        parts={part: torch.from_numpy(owner == i) for i, part in enumerate(read) if part},
        name=name,
        provenance=(
            f"Mulan multi-label data (Tsoumakas et al.) {name}: {unlabelled} examples without a "
            "label are left out."
        ),
    )


def _label_names(path: str | os.PathLike[str]) -> list[str]:
    content = read_bytes(path)
    if b"<!" in content.replace(b"<!--", b""):  # entities could expand without bound
        raise ValueError(
            f"{os.fspath(path)} must be plain XML, without declarations such as DOCTYPE"
        )
    try:
        # The warning is about entities, which need declarations.
        root = ElementTree.fromstring(content)  # nosec B314
    except ElementTree.ParseError as error:
        raise ValueError(f"{os.fspath(path)} is not whole XML: {error}") from error
    # Labels are nested if they form a hierarchy.
    found = [element.get("name") for element in root.iter() if element.tag.endswith("label")]
    names = [name for name in found if name]
    if not names or len(names) != len(found):
        raise ValueError(f"{os.fspath(path)} must hold elements <label name=...>, got {len(names)}")
    return names
