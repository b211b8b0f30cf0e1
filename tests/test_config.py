"""`show_config` lists what is installed, and the consequences of what is missing."""

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest
import torch

import wassloss as wl
from wassloss import _config
from wassloss.native import library


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The printed lines, by their first column."""
    wl.show_config()
    rows: dict[str, str] = {}
    name = ""
    for line in capsys.readouterr().out.splitlines():
        name = line[:15].strip() or name
        rows[name] = f"{rows.get(name, '')} {line[15:]}".strip()
    return rows


def test_versions_and_threads(capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown(capsys)
    assert rows["wassloss"] == wl.__version__
    assert rows["torch"] == torch.__version__
    assert rows["threads"] == str(torch.get_num_threads())


def test_the_compiled_core_is_named_with_its_instructions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "available", lambda: True)
    monkeypatch.setattr(library, "instructions", lambda: "avx2")
    assert shown(capsys)["compiled core"] == "yes, avx2"


def test_without_the_compiled_core_it_says_what_that_costs_and_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "available", lambda: False)
    monkeypatch.setattr(library, "PATH", tmp_path / "_core.so")
    said = shown(capsys)["compiled core"]
    assert said.startswith("no: losses on a CPU")
    assert "if there is a C++ compiler" in said
    assert "pip install --force-reinstall" in said


def test_a_library_that_cannot_be_used_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "available", lambda: False)
    monkeypatch.setattr(library, "PATH", tmp_path / "_core.so")
    library.PATH.touch()
    said = shown(capsys)["compiled core"].replace("\n", " ")
    assert "_core.so belongs to another release or system" in said
    assert "pip install --force-reinstall" in said


def test_what_this_installation_has_is_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys)["compiled core"].startswith("yes" if library.available() else "no")


def test_triton_is_missed_only_where_there_is_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_config, "_version_of", lambda package: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert shown(capsys)["Triton"] == "no"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    rows = shown(capsys)
    assert rows["GPU"] == "H200"
    assert rows["Triton"].startswith("no: losses on a GPU")


def test_a_package_without_metadata_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.util, "find_spec", lambda package: object())
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert _config._version_of("triton") == "yes"
