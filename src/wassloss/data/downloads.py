"""Downloads of word vectors: only when asked for, and checked against published checksums."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from wassloss.data._arrow import one_line

VARIABLE = "WASSLOSS_DATA"
_GENSIM = "https://github.com/RaRe-Technologies/gensim-data/releases/download/"


class Download(NamedTuple):
    """The source of some word vectors."""

    url: str  # the names of the files are appended
    files: dict[str, str]  # name → checksum, as pooch writes it
    licence: str


# An entry needs a public address and a checksum published by its author or a well-known user of it.
DOWNLOADS = {
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


def folder() -> Path:
    """Where downloads go: ``$WASSLOSS_DATA`` if set, otherwise the user's cache."""
    import platformdirs  # imported here because few users download anything

    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path(platformdirs.user_cache_dir("wassloss"))


def get(name: str, *, progress: bool = False) -> list[Path]:
    """Download word vectors, unless the files are there already, and return the files.

    Files go to ``NAME/`` in ``$WASSLOSS_DATA`` or, if that is not set, in the user's cache. A file
    appears there once its checksum is the published one; failed downloads are tried again twice.

    Args:
        name: ``glove`` or ``word2vec``.
        progress: whether to show a progress bar.

    Raises:
        OSError: a file could not be downloaded, or is not the expected one.
        ValueError: there is no such download.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'wassloss[data]'") from error
    source, place = DOWNLOADS[name], folder() / name
    pooch.get_logger().setLevel("ERROR")  # errors are raised, and the bar shows the rest
    shelf = pooch.create(place, source.url, registry=source.files, retry_if_failed=2)
    try:
        return [Path(shelf.fetch(file, progressbar=progress)) for file in source.files]
    except (OSError, ValueError) as error:
        what = f"{source.url} could not be downloaded to {place}"
        raise OSError(f"{what}: {one_line(error)}") from error
