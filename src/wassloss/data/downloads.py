"""Downloads: only when asked for, and only what is known by its checksum."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wassloss.data._fetch import Progress, fetch
from wassloss.data.lookup import folders


class Download(NamedTuple):
    """Where a data set comes from."""

    url: str  # its files' names are added
    files: dict[str, str]  # name → checksum, as pooch writes it
    licence: str


_GENSIM = "https://github.com/RaRe-Technologies/gensim-data/releases/download/"

# An entry needs a public address and a checksum that its publisher, or a well-known user of it, has
# published.
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
    "glove": Download(  # both as in gensim's own list
        f"{_GENSIM}glove-wiki-gigaword-100/",
        {"glove-wiki-gigaword-100.gz": "md5:40ec481866001177b8cd4cb0df92924f"},
        "GloVe 6B, 400 000 words, 100 dimensions (Pennington, Socher, Manning); PDDL 1.0",
    ),
    "word2vec": Download(
        f"{_GENSIM}word2vec-google-news-300/",
        {"word2vec-google-news-300.gz": "md5:a5e5354d40acb95f9ec66d5977d140ef"},
        "word2vec of Google News, 3 000 000 words, 300 dimensions, 1.7 GB (Mikolov and others); "
        "no licence is stated",
    ),
}

# What we know of no address and published checksum for: the files to get by hand, and from whom.
BY_HAND = {
    "delicious": ("delicious-train.arff, delicious-test.arff (or .gz), delicious.xml", "Mulan"),
    "flickr8k": ("flickr8k_efflite0_tags.npz", "whoever computed features of Flickr8k's photos"),
    "wordnet": ("index.noun, data.noun, cntlist.rev, noun.exc (or .gz)", "WordNet 3.0"),
}


def get(name: str, *, progress: Progress | None = None) -> list[Path]:
    """Download a data set to where its loader looks, unless its files are there and whole.

    Files go to the first of the folders that are searched: ``$WASSLOSS_DATA``, or the user's cache.
    What was interrupted is kept under another name and gone on with by the next call; a file gets
    its own name once its checksum is the published one.

    Args:
        name: of the data set: ``mnist``, ``glove`` or ``word2vec``.
        progress: called with the bytes done of a file and all it has, or None where unknown.

    Returns:
        The files.

    Raises:
        OSError: a file could not be downloaded, or is not the one expected.
        ValueError: there is no such download; for sets to be had by hand, which files go where.
    """
    place = folders()[0] / name
    if name in BY_HAND:
        files, origin = BY_HAND[name]
        raise ValueError(
            f"{name} has no published checksum to download it by: get it from {origin}, and put "
            f"into {place} the files {files}"
        )
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    source = DOWNLOADS[name]
    return [
        fetch(source.url + file, place / file, checksum, progress)
        for file, checksum in source.files.items()
    ]
