"""Labels that spreadsheets interpret as formulas: unchanged, or escaped on demand."""

import csv
from pathlib import Path

import pyarrow.parquet
import pytest

import wassloss as wl
from tests.app.cli.commands import ok

pytestmark = pytest.mark.filterwarnings("default::wassloss.app._messages.DataWarning")
LABELS = ["=cmd()", "+1 a", "-x", "@sum", "\tb", "plain", "a=b"]


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_labels(suffix: str, escaped: bool, tmp_path: Path) -> None:
    rows = [[float(i), float(i == j)] for i in range(len(LABELS)) for j in range(2)]
    model = wl.WassersteinClassifier(tol=0.1)
    model.fit(rows, [label for label in LABELS for _ in range(2)]).save(tmp_path / "model")
    data, out = tmp_path / "data.csv", tmp_path / f"out.{suffix}"
    data.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in rows))
    more = ["--escape-formulas"] if escaped else []
    ok("predict", tmp_path / "model", data, "--top", len(LABELS), "--out", out, *more)
    if suffix == "csv":
        found = next(csv.DictReader(out.read_text().splitlines()))
    else:
        found = pyarrow.parquet.read_table(out).to_pylist()[0]
    shown = {str(value) for name, value in found.items() if name.startswith("label_")}
    marked = {f"'{label}" for label in LABELS[:5]} | set(LABELS[5:])
    assert shown == (marked if escaped else set(LABELS))


def test_numbers_are_no_formulas(tmp_path: Path) -> None:
    model = wl.WassersteinClassifier("ordinal", tol=0.1).fit([[0.0], [1.0]], [-1, 1])
    model.save(tmp_path / "model")
    (tmp_path / "data.csv").write_text("a\n0\n1\n")
    told = ok("predict", tmp_path / "model", tmp_path / "data.csv", "--escape-formulas", "--top", 1)
    assert [line.split(",")[1] for line in told.stdout.splitlines()[1:]] == ["-1", "1"]
