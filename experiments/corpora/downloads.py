"""Download the corpora that have a public address; explain how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments.corpora.lookup import folders


class Download(NamedTuple):
    """The source of a corpus."""

    url: str  # base address of its files
    files: dict[str, str]  # name → checksum, in pooch's notation
    licence: str


DOWNLOADS = {
    "mnist": Download(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {  # checksums as in torchvision
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
        "MNIST (LeCun, Cortes, Burges); no licence is stated for the data",
    ),
}

# Corpora without an address and a published checksum: the files needed, and their source.
BY_HAND = {
    "delicious": ("delicious-train.arff, delicious-test.arff (or .gz), delicious.xml", "Mulan"),
    "flickr8k": ("flickr8k_efflite0_tags.npz", "whoever computed features of Flickr8k's photos"),
    "orca": ("tae/matlab/train_tae.0 to test_tae.29", "exampledata/30-holdout of ayrna/orca"),
    "wordnet": ("index.noun, data.noun, cntlist.rev, noun.exc (or .gz)", "WordNet 3.0"),
    "glove": (
        "glove_100d.npy, words.txt",
        "GloVe 6B; gensim's glove-wiki-gigaword-100 has the vectors in another format",
    ),
}


def get(name: str) -> list[Path]:
    """Download a corpus to where its reader looks, unless its files are there and intact.

    Args:
        name: of the corpus.

    Returns:
        The files.

    Raises:
        ValueError: there is no such download, or the file has another checksum. For corpora that
            must be downloaded by hand, the message lists the files and where to put them.
    """
    place = folders()[0] / name
    if name in BY_HAND:
        files, origin = BY_HAND[name]
        raise ValueError(
            f"{name} has no published checksum to download it by: get it from {origin}, and put "
            f"these files into {place}: {files}"
        )
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    import pooch

    source = DOWNLOADS[name]
    return [
        Path(pooch.retrieve(source.url + file, checksum, fname=file, path=place))
        for file, checksum in source.files.items()
    ]
