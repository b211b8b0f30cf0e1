"""Downloads: only when asked for, and only what is known by its checksum."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from wassloss.data._fetch import Progress, fetch

VARIABLE = "WASSLOSS_DATA"


class Download(NamedTuple):
    """Where a data set comes from."""

    url: str  # its files' names are added
    files: dict[str, str]  # name → checksum, as pooch writes it
    licence: str


_GENSIM = "https://github.com/RaRe-Technologies/gensim-data/releases/download/"

# An entry needs a public address and a checksum that its publisher, or a well-known user of it, has
# published.
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


def get(name: str, *, progress: Progress | None = None) -> list[Path]:
    """Download word vectors, unless the files are there and whole.

    Files go to ``NAME/`` in ``$WASSLOSS_DATA`` or, if that is not set, in the user's cache.
    What was interrupted is kept under another name and gone on with by the next call; a file gets
    its own name once its checksum is the published one.

    Args:
        name: ``glove`` or ``word2vec``.
        progress: called with the bytes done of a file and all it has, or None where unknown.

    Returns:
        The files.

    Raises:
        OSError: a file could not be downloaded, or is not the one expected.
        ValueError: there is no such download.
    """
    place = folder() / name
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    source = DOWNLOADS[name]
    return [
        fetch(source.url + file, place / file, checksum, progress)
        for file, checksum in source.files.items()
    ]
