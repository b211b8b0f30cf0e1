from dataclasses import replace

import pytest

typer = pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner  # noqa: E402

from tests.reproduce.tiny import SETTINGS  # noqa: E402
from wassloss.cli.reproduce import reproduce  # noqa: E402
from wassloss.reproduce import registry  # noqa: E402

app = typer.Typer()
app.command()(reproduce)


def test_without_a_name_it_lists_the_experiments() -> None:
    found = CliRunner().invoke(app, [])
    assert found.exit_code == 0
    for name in registry.EXPERIMENTS:
        assert name in found.output


def test_a_name_gives_json_figures_and_a_page(tmp_path, monkeypatch) -> None:
    small = replace(registry.EXPERIMENTS["bound"], quick=SETTINGS["bound"])
    monkeypatch.setitem(registry.EXPERIMENTS, "bound", small)
    found = CliRunner().invoke(app, ["bound", "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert "Theorem 5.1" in found.output
    assert {"bound.json", "bound-bound.png", "index.html"} <= {p.name for p in tmp_path.iterdir()}


def test_an_unknown_name_is_wrong_usage(tmp_path) -> None:
    found = CliRunner().invoke(app, ["latice", "--out", str(tmp_path)])
    assert found.exit_code == 2
    assert "latice" in found.output
