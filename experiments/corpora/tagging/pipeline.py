"""The whole pipeline: count, choose the tags, draw the photos, embed the tags, write."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.corpora.glove import read_vectors
from experiments.corpora.tagging.block_reader import Progress, walk
from experiments.corpora.tagging.counting import CountWords
from experiments.corpora.tagging.metadata import MALFORMED
from experiments.corpora.tagging.sample import TagSample
from experiments.corpora.tagging.sampling import DrawPhotos
from experiments.corpora.tagging.stop_words import STOP_WORDS
from experiments.corpora.tagging.vocabulary import (
    DROPPED_CATEGORIES,
    Vocabulary,
    candidates,
    most_frequent,
)
from experiments.corpora.word_vectors import WordVectors
from experiments.corpora.wordnet import WordNet, read_wordnet
from experiments.lab.checks import check_seed
from experiments.lab.files import replacing

PathLike = str | os.PathLike[str]


def yfcc_tags(
    metadata: PathLike | Sequence[PathLike],
    vectors: WordVectors | PathLike,
    folder: PathLike,
    *,
    tags: int = 1000,
    train: int = 10_000,
    test: int = 10_000,
    wordnet: WordNet | PathLike | None = None,
    stop_words: Collection[str] = STOP_WORDS,
    drop_categories: Collection[str] = DROPPED_CATEGORIES,
    keep: Collection[str] = (),
    merge_plurals: bool = False,
    missing: Literal["drop", "error"] = "drop",
    seed: int = 0,
    workers: int = 2,
    restart: bool = False,
    progress: Progress | None = None,
    block_bytes: int = 8 << 20,
    save_seconds: float = 2.0,
) -> TagSample:
    """Choose tags and photos from YFCC100M's metadata as the paper did.

    docs/developers/tagged-photographs.md describes the steps.

    The metadata are read twice. The first pass counts how many photos have each word of WordNet
    as a tag; from these counts the tags are chosen. The second draws photos that have one of them.
    Both passes write their state to ``folder``, and a run that was interrupted, even killed,
    resumes there with the same result, bit for bit. A run with other choices of tags reuses the
    counts.

    Malformed lines are counted by kind in ``report`` and skipped.

    Args:
        metadata: the files as published, plain, gzip or bzip2.
        vectors: word vectors, or a file of them.
        folder: where to write the states of both passes, the result, ``tags.npz``, and a readable
            ``vocabulary.tsv``.
        tags: number of tags to choose; the most frequent are taken.
        train: number of training photos to draw.
        test: number of test photos to draw.
        wordnet: WordNet or its folder; default: where :func:`read_wordnet` looks.
        stop_words: tags to leave out.
        drop_categories: lexical categories whose words are left out.
        keep: words to keep whatever their category, such as the paper's "summer".
        merge_plurals: count "dogs" as "dog" if WordNet has no word "dogs".
        missing: ``"drop"`` skips words without a vector; ``"error"`` raises an error that names
            those among the most frequent.
        seed: of the draw.
        workers: number of reading processes. A script that uses more than 1 needs an
            ``if __name__ == "__main__":`` guard, because workers import it.
        restart: start again if the folder holds another run.
        progress: called with the bytes read and the total, of both passes together.
        block_bytes: size of the blocks that a process reads.
        save_seconds: time between writes of the state.
    """
    for name, value in {"tags": tags, "train": train, "test": test, "workers": workers}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < (name != "test"):
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    if missing not in ("error", "drop"):
        raise ValueError(f"missing must be 'error' or 'drop', got {missing!r}")
    files = [metadata] if isinstance(metadata, str | os.PathLike) else list(metadata)
    paths = [Path(file) for file in files]
    absent = [str(path) for path in paths if not path.is_file()]
    if absent or not paths:
        raise FileNotFoundError(f"metadata must be files, got {absent[0] if absent else 'none'}")
    seed = check_seed("seed", seed)
    net = wordnet if isinstance(wordnet, WordNet) else read_wordnet(wordnet)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "workers": workers,
        "restart": restart,
        "block_bytes": block_bytes,
        "save_seconds": save_seconds,
    }

    counting = CountWords(net, merge_plurals)
    known = (*counting.words, *net.singulars, *net.singulars.values())
    identity: dict[str, Any] = {"wordnet": _digest(known), "merge_plurals": merge_plurals}
    half = _half(progress, 0)
    walk(paths, counting, place / "counts.npz", identity, progress=half, **options)

    counts = dict(zip(counting.words, counting.counts.tolist(), strict=True))
    possible = candidates(
        counts, net, drop_categories=drop_categories, stop_words=stop_words, keep=keep
    )
    if not isinstance(vectors, WordVectors):
        vectors = read_vectors(vectors, possible.tags)
    if missing == "error":
        vectors.take(possible.tags[:tags])
    chosen = most_frequent(possible, tags, vectors.missing(possible.tags))

    numbers = {tag: i for i, tag in enumerate(chosen.tags)}
    drawing = DrawPhotos(numbers, net if merge_plurals else None, train + test, seed)
    identity |= {"tags": _digest(chosen.tags), "photos": train + test, "seed": seed}
    half = _half(progress, 1)
    walk(paths, drawing, place / "sample.npz", identity, progress=half, **options)

    drawn = drawing.result()
    if len(drawn) < train + test:
        raise ValueError(
            f"train and test must ask for at most {len(drawn)} photos, those with one of the "
            f"{tags} tags, got {train} and {test}"
        )
    sample = TagSample(
        np.array([photo for photo, _ in drawn], np.int64),
        tuple(one.url.decode("utf-8", "backslashreplace") for _, one in drawn),
        np.array([len(one.tags) for _, one in drawn], np.int64),
        np.array([tag for _, one in drawn for tag in one.tags], np.int64),
        train,
        chosen.tags,
        np.array(chosen.photos, np.int64),
        vectors.metric(chosen.tags),
        _report(counting, chosen, drawing.eligible, len(possible.tags)),
    )
    sample.save(place / "tags.npz")
    with replacing(place / "vocabulary.tsv") as temporary:
        rows = zip(chosen.tags, chosen.photos, chosen.categories, strict=True)
        lines = ["tag\tphotos\tcategory", *("\t".join(map(str, row)) for row in rows)]
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return sample


def _half(progress: Progress | None, which: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(which * total + done, 2 * total)


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _report(counting: CountWords, chosen: Vocabulary, eligible: int, possible: int) -> str:
    found = counting.report
    lines = [
        f"{found['lines']} lines: {found['photos']} photos "
        f"({found['photos without tags']} without tags), {found['videos']} videos, "
        f"{sum(found[kind] for kind in MALFORMED)} malformed",
        *(f"  {found[kind]}: {kind}" for kind in MALFORMED if found[kind]),
        f"{found['photos with a tag that is not UTF-8']} photos with a tag that is not UTF-8",
        f"{int((counting.counts > 0).sum())} words of WordNet are tags; left out: "
        + ", ".join(f"{count} {reason}" for reason, count in chosen.dropped.items()),
        f"{len(chosen.tags)} tags chosen of {possible}, from {chosen.tags[0]} "
        f"({chosen.photos[0]} photos) to {chosen.tags[-1]} ({chosen.photos[-1]})",
        f"{eligible} photos have one of them",
    ]
    return "\n".join(lines)
