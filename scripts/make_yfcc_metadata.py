"""Write synthetic photo metadata in the published format of YFCC100M, to test the tag pipeline.

    python scripts/make_yfcc_metadata.py 2000000 metadata.tsv

Tags are words of WordNet with frequencies by Zipf's law, some in capitals, plurals, and strings
that occur only once. One line in a thousand is malformed: in turn truncated, with an invalid
identifier, with an invalid marker, or with a tag that is not UTF-8. The same arguments give the
same bytes.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

OPENERS = {".bz2": bz2.open, ".gz": gzip.open}


def metadata_lines(n: int, words: Sequence[str], columns: int = 25, seed: int = 0) -> Iterator[str]:
    """Yield ``n`` lines without newlines; surrogates stand for bytes that are not UTF-8."""
    draw = random.Random(seed)
    # Zipf's law by inversion: rank r has probability about 1/r.
    ranks = [int(len(words) ** (i / 4096)) - 1 for i in range(4096)]
    choice, uniform = draw.choice, draw.random
    for i in range(n):
        tags = []
        for _ in range(int(-6 * (1 - uniform()) ** 3 + 7)):
            word = words[choice(ranks)].replace("_", "+")
            chance = uniform()
            if chance < 0.05:
                word = word.capitalize()
            elif chance < 0.15:
                word += "s"
            elif chance < 0.4:
                word = f"x{draw.getrandbits(40):x}"
            elif chance < 0.42:
                word = f"caf%C3%A9+{word}"
            tags.append(word)
        photo = 2_000_000_000 + i * 7
        kind = "1" if uniform() < 0.008 else "0"
        secret = f"{draw.getrandbits(40):010x}"
        fields = [
            *(str(i), str(photo), f"{draw.getrandbits(128):032x}"),
            f"{photo % 99_999_999}@N00",
            "some+nickname",
            "2012-02-16 09:56:37.0",
            "1331840483",
            "Canon+PowerShot+ELPH+310+HS",
            f"IMG_{i % 10_000:04d}",
            "An+afternoon+outside%2C+with+some+words+about+what+happened+there" * (i % 3),
            ",".join(tags),
            "",
            *(("-81.804885", "24.550558", "12") if i % 2 else ("", "", "")),
            f"http://www.flickr.com/photos/39089491@N00/{photo}/",
            f"http://farm8.staticflickr.com/7205/{photo}_{secret}.jpg",
            "Attribution-NonCommercial-NoDerivs License",
            "http://creativecommons.org/licenses/by-nc-nd/2.0/",
            *("7205", "8", secret, secret, "jpg", kind),
        ]
        if i % 1000 == 500:
            wrong = i // 1000 % 4
            if wrong == 0:
                fields = fields[:7]
            elif wrong == 1:
                fields[1] = "n/a"
            elif wrong == 2:
                fields[-1] = "2"
            else:
                fields[10] = "sky,%FF%FE"
        if columns == 23 and len(fields) == 25:
            del fields[2], fields[0]
        yield "\t".join(fields)


def write_metadata(
    path: Path, n: int, words: Sequence[str], columns: int = 25, seed: int = 0
) -> None:
    """Write ``n`` lines, compressed according to the suffix."""
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in metadata_lines(n, words, columns, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lines", type=int)
    parser.add_argument("path", type=Path, help="file to write; .bz2 and .gz are compressed")
    parser.add_argument("--columns", type=int, choices=(23, 25), default=25)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    from experiments.corpora.lookup import find
    from experiments.corpora.wordnet import read_wordnet

    # Words with a vector come in order of frequency, so the most frequent are roughly first.
    net = read_wordnet()
    listed = find("glove", "words.txt").read_text(encoding="utf-8").split("\n")
    words = [word for word in listed if word in net and len(word) > 2]
    write_metadata(arguments.path, arguments.lines, words, arguments.columns, arguments.seed)


if __name__ == "__main__":
    main()
