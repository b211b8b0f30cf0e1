"""`python -m experiments`."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments import registry
from experiments.__main__ import main
from tests.experiments.tiny import SETTINGS


def test_the_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(registry.EXPERIMENTS)


def test_a_name_gives_json_figures_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(registry.EXPERIMENTS["bound"], quick=SETTINGS["bound"])
    monkeypatch.setitem(registry.EXPERIMENTS, "bound", small)
    main(["bound", "--out", str(tmp_path)])
    assert "Theorem 5.1" in capsys.readouterr().err
    assert {"bound.json", "bound-bound.png", "index.html"} <= {p.name for p in tmp_path.iterdir()}


def test_an_unknown_name_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["latice", "--out", str(tmp_path)])
    assert caught.value.code == 2
    assert "latice" in capsys.readouterr().err
