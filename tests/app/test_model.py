"""The model of a table in one file: what comes back, and what is refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import wassloss as wl
from wassloss.app._messages import DataWarning
from wassloss.app.examples import ReadOptions
from wassloss.app.model import TableModel, load_model
from wassloss.app.tables import Table
from wassloss.app.training import fit_table
from wassloss.files import pack_tensors, unpack_tensors

pytest.importorskip("safetensors")
pytest.importorskip("skops")

RNG = np.random.default_rng(0)
GRADES = ("poor", "fair", "good")


def frame(rows: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    acid, colour = rng.normal(size=rows), np.array(["white", "red"])[np.arange(rows) % 2]
    y = np.digitize(acid + (colour == "red") + 0.3 * rng.normal(size=rows), [0, 1])
    acid[::9] = np.nan
    return pd.DataFrame({"acid": acid, "colour": colour, "grade": np.array(GRADES)[y]})


OPTIONS = ReadOptions(label_column="grade", order=GRADES)
FRAME = frame()


@pytest.fixture(scope="module")
def model() -> TableModel:
    table = Table.of(FRAME)
    return fit_table(table, "ordinal", options=OPTIONS, params={"tol": 0.01}).model


@pytest.fixture
def path(model: TableModel, tmp_path: Path) -> Path:
    model.save(tmp_path / "wine.wassloss")
    return tmp_path / "wine.wassloss"


def test_it_comes_back_as_it_was(model: TableModel, path: Path) -> None:
    again = wl.load(path)
    assert isinstance(again, TableModel)
    assert again.labels == model.labels == GRADES
    assert again.origin == json.loads(json.dumps(model.origin))
    assert again.path == path
    assert again.name == "wine"
    np.testing.assert_array_equal(again.predict_proba(FRAME), model.predict_proba(FRAME))
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    assert again.score(FRAME, FRAME["grade"]) == model.score(FRAME, FRAME["grade"]) > 0.7
    shuffled = FRAME[["colour", "acid"]]
    np.testing.assert_array_equal(again.predict_top(shuffled, 2), model.predict_top(FRAME, 2))
    logits = again.logits(FRAME)
    place = [again.classes_.tolist().index(name) for name in GRADES]
    np.testing.assert_allclose(logits.exp(), again.predict_proba(FRAME)[:, place])
    overlap = again.overlap(FRAME.iloc[:40])
    assert overlap is not None
    assert overlap.seen == 40


def test_a_file_is_small(path: Path) -> None:
    assert path.stat().st_size < 200_000


def test_columns_are_found_by_name(model: TableModel) -> None:
    with pytest.raises(ValueError, match=r"X cannot be read as data: it lacks the column 'colour'"):
        model.predict(FRAME[["acid"]])
    with pytest.warns(DataWarning, match="ignoring the column 'city'"):
        model.predict(FRAME.assign(city="Ulm"))
    with pytest.raises(ValueError, match="X must be a data frame with the columns 'acid', 'col"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="row 1, column 'acid': expected a number, got 'low'"):
        model.predict(pd.DataFrame({"acid": [1, "low"], "colour": ["red", "red"]}))


def test_decisions(model: TableModel) -> None:
    other = model.with_decision("least_cost")
    assert (other.classifier.decision, model.classifier.decision) == ("least_cost", "probable")
    p = torch.from_numpy(other.logits(FRAME).exp().numpy())
    expected = np.array(GRADES)[wl.decisions.least_cost_label(p, model.metric_)]
    np.testing.assert_array_equal(other.predict(FRAME), expected)


def test_numbers_go_by_position_in_arrays(tmp_path: Path) -> None:
    numbers = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["b", "a"])
    numbers["label"] = (numbers["b"] > 0).astype(int)
    fitted = fit_table(Table.of(numbers), "ordinal").model
    x = numbers[["b", "a"]].to_numpy()
    np.testing.assert_array_equal(fitted.predict_proba(x), fitted.predict_proba(numbers))
    np.testing.assert_array_equal(fitted.predict(x.tolist()), fitted.predict(x))


@pytest.mark.parametrize("named", [True, False])
def test_the_file_of_an_estimator_serves_too(named: bool, tmp_path: Path) -> None:
    x = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["b", "a"])
    y = (x["b"] > 0).astype(int)
    fitted = wl.WassersteinClassifier("ordinal").fit(x if named else x.to_numpy(), y)
    fitted.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    expected = fitted.predict_proba(x if named else x.to_numpy())
    words = x.astype(str).assign(label=y)
    if named:
        with pytest.warns(DataWarning, match="ignoring the column 'label'"):
            found = loaded.predict_proba(words[["a", "label", "b"]])
    else:
        with pytest.warns(DataWarning, match="columns are matched by position"):
            found = loaded.predict_proba(words.drop(columns="label"))
    np.testing.assert_allclose(found, expected)
    assert isinstance(wl.load(tmp_path / "m"), wl.WassersteinClassifier)


def test_a_regressor_is_loaded_but_serves_no_command(tmp_path: Path) -> None:
    x = RNG.normal(size=(30, 2))
    masses = np.exp(x @ RNG.normal(size=(2, 3)))
    wl.WassersteinMeasureRegressor("ordinal", tol=0.1).fit(x, masses).save(tmp_path / "masses")
    assert isinstance(wl.load(tmp_path / "masses"), wl.WassersteinMeasureRegressor)
    with pytest.raises(ValueError, match="is a saved WassersteinMeasureRegressor, expected a clas"):
        load_model(tmp_path / "masses")


def test_a_folder_of_a_comparison(model: TableModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.wassloss")
    found = load_model(tmp_path)
    assert found.path == tmp_path / "model.wassloss"
    assert found.name == tmp_path.name
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        wl.load(tmp_path / "nowhere")


# --- what may not be replaced, and what is damaged ------------------------------------------------


def test_what_others_wrote_is_not_replaced(model: TableModel, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not a model written by wassl"):
        model.save(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")


def test_a_failed_save_leaves_the_old_file(
    model: TableModel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        model.with_decision("least_cost").save(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def refused(path: Path, message: str = "is not a saved model") -> str:
    with pytest.raises(ValueError, match=message) as error:
        wl.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_cut_anywhere_and_a_byte_changed_anywhere(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        refused(path)
    for place in np.random.default_rng(0).integers(len(whole), size=40):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        refused(path)


EXECUTED: list[str] = []


class Bomb:
    """Unpickled, it leaves a trace."""

    def __reduce__(self) -> tuple[Any, ...]:
        return EXECUTED.append, ("a pickle ran",)


def crafted(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """The file with other content, and a checksum that fits."""
    tensors, about = unpack_tensors(path.read_bytes())
    change(tensors, about)
    path.write_bytes(pack_tensors(tensors, about))


def as_tensor(content: bytes) -> Any:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def test_pickles_are_refused(path: Path) -> None:
    for content in (pickle.dumps(Bomb()), np.random.default_rng(0).bytes(500)):
        for name in ("encoder", "classifier"):
            put = {name: as_tensor(content)}
            crafted(path, lambda tensors, _, put=put: tensors.update(put))
            refused(path)
    assert not EXECUTED


def rewritten(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """An encoder's archive with another schema."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        schema = json.loads(old.read("schema.json"))
        change(schema)
        for name in old.namelist():
            new.writestr(name, json.dumps(schema) if name == "schema.json" else old.read(name))
    return packed.getvalue()


def schema_changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    def changed(tensors: dict[str, Any], _: dict[str, Any]) -> None:
        tensors["encoder"] = as_tensor(rewritten(tensors["encoder"].numpy().tobytes(), change))

    crafted(path, changed)


def node(module: str, name: str, loader: str = "ObjectNode") -> dict[str, Any]:
    return {"__module__": module, "__class__": name, "__loader__": loader, "content": None}


@pytest.mark.parametrize(
    "bad",
    [
        node("os", "system", "FunctionNode"),
        node("builtins", "eval", "FunctionNode"),
        node("subprocess", "Popen"),
        node("sklearn.ensemble._forest", "RandomForestClassifier"),  # which skops itself trusts
        node("numpy", "load", "FunctionNode"),
        node("skrub._table_vectorizer", "TableVectorizer", "ReduceNode"),
        node("sklearn.pipeline", "Pipeline", "MethodNode"),
    ],
    ids=lambda bad: f"{bad['__module__']}.{bad['__class__']} {bad['__loader__']}",
)
def test_types_that_are_not_listed_are_refused_by_name(bad: dict[str, Any], path: Path) -> None:
    schema_changed(path, lambda schema: schema["content"]["content"].update(verbose=bad))
    said = refused(path, "its encoder holds .*, which wassloss does not load")
    name = f"{bad['__module__']}.{bad['__class__']}"
    assert name in said or bad["__loader__"] in said


def test_earlier_protocols_of_skops_are_refused(path: Path) -> None:
    schema_changed(path, lambda schema: schema.update(protocol=1))
    refused(path, "its encoder must have skops protocol 2 or later, got 1")


def test_types_of_another_skrub_are_refused_with_what_to_do(path: Path) -> None:
    def changed(tensors: dict[str, Any], about: dict[str, Any]) -> None:
        about["encoder"]["made_by"]["skrub"] = "9.9.9"

    schema_changed(
        path,
        lambda schema: schema["content"]["content"].update(verbose=node("skrub._new", "Thing")),
    )
    crafted(path, changed)
    refused(path, r"skrub\._new\.Thing, .*it was written with skrub==9\.9\.9: install that, or fit")


def test_an_encoder_that_inflates_is_refused(path: Path) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b"0" * 2**27)
    crafted(path, lambda tensors, _: tensors.update(encoder=as_tensor(bomb.getvalue())))
    assert path.stat().st_size < 2**19
    refused(path, "its encoder must have at most 67108864 bytes uncompressed")


def test_an_encoder_without_end_is_refused(path: Path) -> None:
    deep = io.BytesIO()
    with zipfile.ZipFile(deep, "w") as archive:
        archive.writestr("schema.json", "[" * 100_000 + "]" * 100_000)
    crafted(path, lambda tensors, _: tensors.update(encoder=as_tensor(deep.getvalue())))
    refused(path, "its encoder is nested too deep")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "format 9 is unknown"),
        ({"encoder": {}}, "is not a saved model"),
        ({"origin": None}, "is not a saved model"),
        ({"trained_on": {}}, "is not a saved model"),
    ],
)
def test_contents_that_make_no_sense_are_refused(
    change: dict[str, Any], message: str, path: Path
) -> None:
    crafted(path, lambda _, about: about.update(change))
    refused(path, message)


def test_an_encoder_of_another_model_is_refused(path: Path) -> None:
    def changed(_: dict[str, Any], about: dict[str, Any]) -> None:
        about["encoder"] |= {"numbers": [], "medians": [], "gaps": []}

    crafted(path, changed)
    refused(path, "its encoder and classifier do not match")


def test_an_estimator_is_loaded_without_pandas_and_skops(tmp_path: Path) -> None:
    x = RNG.normal(size=(30, 2))
    wl.WassersteinClassifier("ordinal", tol=0.1).fit(x, x[:, 0] > 0).save(tmp_path / "m")
    code = f"""
import sys
for name in ("pandas", "pyarrow", "skrub", "skops"):
    sys.modules[name] = None
import wassloss as wl
print(type(wl.load({str(tmp_path / "m")!r})).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_hint_where_the_extra_is_missing(path: Path) -> None:
    code = (
        "import sys; sys.modules['safetensors'] = None\n"
        f"import wassloss as wl\nwl.load({str(path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'model files need safetensors: pip install "wassloss[app]"' in done.stderr
