"""Downloads: only when asked for, and only what is known by its checksum."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wassloss.data.lookup import folders


class Download(NamedTuple):
    """Where a data set comes from."""

    url: str  # its files' names are added
    files: dict[str, str]  # name → checksum, as pooch writes it
    licence: str


# An entry needs a public address and a checksum that its publisher, or a well-known user of it,
# has published. GloVe, WordNet, word2vec's vectors, Mulan's sets and YFCC100M have none that we
# could confirm; put their files where docs/data.md says.
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


def get(name: str, *, progress: bool = False) -> list[Path]:
    """Download a data set to where its loader looks, unless its files are there and whole.

    Files go to the first of the folders that are searched: ``$WASSLOSS_DATA``, or the user's cache.
    A file is written to a temporary name, checked, and renamed: what was interrupted begins anew
    and leaves nothing that could be taken for the file.

    Args:
        name: of the data set: ``mnist``.
        progress: whether to show a bar (needs tqdm).

    Returns:
        The files.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    source = DOWNLOADS[name]
    place = folders()[0] / name
    return [
        _retrieve(source.url, file, checksum, place, progress)
        for file, checksum in source.files.items()
    ]


def _retrieve(url: str, file: str, checksum: str, place: Path, progress: bool) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'wassloss[data]'") from error
    try:
        return Path(pooch.retrieve(url + file, checksum, file, place, progressbar=progress))
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise OSError(f"{url}{file} could not be downloaded to {place}: {said}") from error
