"""Rebuilding the built-in clip art, each stage on synthetic packages."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from experiments.corpora.lookup import find
from experiments.corpora.wordnet import WordNet
from tests.places import needs

image_of = pytest.importorskip("PIL.Image")

from scripts.clipart import build, check, debian, images  # noqa: E402
from scripts.clipart.tags import Metadata, metadata, words_of  # noqa: E402

NET = WordNet(
    {word: "noun.artifact" for word in ("road", "sign", "dog", "game", "glass", "person", "flag")},
    {"people": "person"},
)


def svg(subjects: list[str], author: str = "Ann", licence: str = "cc/PublicDomain") -> bytes:
    items = "".join(f"<rdf:li>{subject}</rdf:li>" for subject in subjects)
    return (
        f'<svg><cc:license rdf:resource="http://web.resource.org/{licence}" />'
        f"<dc:creator><cc:Agent><dc:title>{author}</dc:title></cc:Agent></dc:creator>"
        f"<dc:subject><rdf:Bag>{items}</rdf:Bag></dc:subject></svg>"
    ).encode()


def png(colour: tuple[int, int, int, int], box: tuple[int, int, int, int]) -> bytes:
    image = image_of.new("RGBA", (60, 40), (0, 0, 0, 0))
    image.paste(colour, box)
    packed = io.BytesIO()
    image.save(packed, "PNG")
    return packed.getvalue()


def package(path: Path, files: dict[str, bytes], link: str | None = None) -> Path:
    """A .deb: an ar archive of a version, a control file and the data."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./usr/share/openclipart/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link is not None:
            member = tarfile.TarInfo(f"./usr/share/openclipart/{link}")
            member.type, member.linkname = tarfile.SYMTYPE, "animals/dog.svg"
            archive.addfile(member)
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": packed.getvalue()}
    raw = debian.MAGIC
    for name, content in parts.items():
        raw += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        raw += content + b"\n" * (len(content) % 2)
    path.write_bytes(raw)
    return path


def test_packages(tmp_path: Path) -> None:
    files = {"svg/animals/dog.svg": b"one", "svg/readme.txt": b"no", "png/animals/dog.png": b"two"}
    path = package(tmp_path / "a.deb", files, link="svg/copy.svg")
    assert dict(debian.files(path, "svg")) == {"animals/dog": b"one"}
    linked = dict(debian.files(path, "svg", links=True))
    assert linked == {"animals/dog": b"one", "copy": b"one"}
    assert dict(debian.files(path, "png")) == {"animals/dog": b"two"}
    raw = path.read_bytes()
    path.write_bytes(raw[:-30])
    with pytest.raises(ValueError, match="damaged or cut short"):
        list(debian.files(path, "svg"))
    path.write_bytes(b"not this")
    with pytest.raises(ValueError, match="is not a Debian package"):
        list(debian.files(path, "svg"))


def test_metadata() -> None:
    found = metadata(svg([" Road Sign", "hash", ""], "B &amp; C (bc@mail.org)"))
    assert found == Metadata(
        frozenset({"road sign", "hash"}), "http://web.resource.org/cc/PublicDomain", "B & C"
    )
    assert found.is_free
    assert not metadata(svg([], licence="GPL/2.0")).is_free
    assert metadata(b"<svg/>") == Metadata(frozenset(), "", "")


def test_words() -> None:
    known = build.Counter({"road": 3, "sign": 2, "glass": 1})
    subjects = ["roadsign", "games", "people", "hash(0xfc)", "map_symbol", "glass", "11", "ann"]
    assert words_of(metadata(svg(subjects, "Ann")), NET, known) == {
        *("road", "sign", "game", "person", "map", "symbol", "glass")
    }


def test_copies_share_their_subjects() -> None:
    described = {"a/cup": metadata(svg(["glass"])), "b/cup": metadata(svg(["dog"]))}
    both = build.joined({**described, "c/cup": metadata(svg(["flag"], "Bob"))})
    assert both["a/cup"].subjects == both["b/cup"].subjects == {"glass", "dog"}
    assert both["c/cup"].subjects == {"flag"}


def test_framed() -> None:
    image = images.framed(png((255, 0, 0, 255), (10, 10, 50, 20)))
    assert image is not None
    pixels = np.asarray(image)
    assert pixels.shape == (224, 224, 3)
    red = (pixels == (255, 0, 0)).all(2)
    wide = red.any(0).sum()  # margins were cropped, and replaced by 4 % on each side
    assert wide == pytest.approx(224 / 1.08, abs=5)
    assert red.any(1).sum() == pytest.approx(wide / 4, abs=5)
    assert (pixels[0] == 255).all()
    assert images.framed(png((255, 255, 255, 255), (0, 0, 60, 40))) is None


def test_variants() -> None:
    names = ["a/dog_01", "a/dog_02", "a/cat", "b/dog_01", "b/emu", "a/dog_bw"]
    features = np.random.default_rng(0).normal(size=(6, 50))
    features[4] = features[2] * 1.1  # the same picture elsewhere
    authors = dict.fromkeys(names, "Ann")
    group = images.variants(names, features, authors, 0.87)
    assert group[0] == group[1] == group[5]
    assert group[2] == group[4]
    assert len(set(group.tolist())) == 3
    assert len(set(images.variants(names, features, {**authors, "a/dog_02": "B"}, 0.87))) == 4


def test_split_keeps_groups_and_tags_on_both_sides() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 60, 300)
    group = np.unique(group, return_inverse=True)[1]
    lists = [[int(g) % 7, 7 + int(g) % 5] for g in group]
    train = build.split(group, lists, 0.7, rng)
    assert train.mean() == pytest.approx(0.7, abs=0.05)
    for g in np.unique(group):
        assert len(set(train[group == g].tolist())) == 1
    for side in (train, ~train):
        assert {tag for i in np.flatnonzero(side) for tag in lists[i]} == set(range(12))


def test_at_most_so_many_of_an_author_with_the_same_subjects() -> None:
    card = metadata(svg(["card"]))
    described = {f"c{i}": card for i in range(30)} | {"d": metadata(svg(["card"], "Bob"))}
    names = build.thinned(sorted(described), described, np.random.default_rng(0))
    assert len(names) == 21
    assert "d" in names


@pytest.fixture
def made(tmp_path: Path) -> tuple[build.Arrays, dict[str, np.ndarray]]:
    """Forty drawings of two tags, and one whose tag is too rare."""
    rng = np.random.default_rng(0)
    described, features = {}, {}
    for i in range(40):
        name = f"things/{'abcdefghij'[i % 10]}{'klmn'[i // 10]}thing"
        described[name] = metadata(svg(["flags" if i % 2 else "dog", "hash"], f"author {i}"))
        features[name] = rng.normal(size=300).astype(np.float32)
    described["things/rare"] = metadata(svg(["glass"]))
    features["things/rare"] = rng.normal(size=300).astype(np.float32)
    (tmp_path / "glove.txt").write_text("dog 3 4\nflag 0 2\nglass 1 1\n")
    return build.build(described, features, NET, tmp_path / "glove.txt"), features


def test_all_stages(made: tuple[build.Arrays, dict[str, np.ndarray]]) -> None:
    arrays, features = made
    assert arrays.keys() == build.shipped().keys()
    assert arrays["vocab"].tolist() == ["dog", "flag"]
    np.testing.assert_allclose(arrays["glove"], [[0.6, 0.8], [0, 1]], rtol=1e-6)
    assert len(arrays["files"]) == 40
    assert np.diff(arrays["tags_indptr"]).tolist() == [1] * 40
    centred = arrays["pca256"][arrays["train"]].astype(np.float64)
    np.testing.assert_allclose(centred.mean(0), 0, atol=2e-3)
    spread = centred.T @ centred
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=0.5)
    said = build.agreement(arrays, arrays, features)
    assert "40 made, 40 shipped, 40 in both" in said
    assert "40 tags made, 40 shipped, 40 in both" in said


def test_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a package that has none of the drawings."""
    package(tmp_path / "openclipart-svg_1.deb", {"svg/a/dog.svg": svg(["dog"])})
    assert check.main([str(tmp_path)]) == 1
    assert "3159 drawings" in capsys.readouterr().out


@needs("clipart/clipart_pca256.npz")
def test_what_ships_is_what_was_made() -> None:
    file = find("clipart", "clipart_pca256.npz")
    for name, array in wl.files.read_npz(file).items():
        np.testing.assert_array_equal(array, build.shipped()[name])
