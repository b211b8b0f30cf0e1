"""An encoder as JSON, and skrub's pipeline in skops's format, restricted to a list of types.

Nothing is unpickled. skops trusts every estimator of scikit-learn; here a file may hold only the
types below, which are those that `Encoder` creates. They are checked before skops loads the file.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from importlib.metadata import version
from typing import Any

import numpy as np

from wassloss.app.encoding import Encoder

_MOST = 2**26  # bytes of an uncompressed pipeline
_PROTOCOL = 2  # of skops; earlier protocols store the names of functions elsewhere
_NODES = {
    *("DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode", "NdArrayNode"),
    *("ObjectNode", "SliceNode", "TupleNode", "TypeNode", "CachedNode"),
}
_TYPES = {
    *(f"builtins.{name}" for name in ("bool", "dict", "int", "list", "slice", "str", "tuple")),
    *("builtins.float", "builtins.NoneType"),
    *(f"numpy.{name}" for name in ("dtype", "ndarray", "float32", "float64", "int64", "bool")),
    "sklearn.decomposition._truncated_svd.TruncatedSVD",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.feature_extraction.text.TfidfVectorizer",
    "sklearn.impute._base.MissingIndicator",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._encoders.OneHotEncoder",
}
_SKRUB = {
    "skrub._apply_to_each_col.ApplyToEachCol",
    "skrub._check_input.CheckInputDataFrame",
    "skrub._clean_categories.CleanCategories",
    "skrub._clean_null_strings.CleanNullStrings",
    *(f"skrub._dataframe._common.is_{kind}" for kind in ("any_date", "categorical", "numeric")),
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._drop_uninformative.DropUninformative",
    "skrub._duration_to_float.DurationToFloat",
    "skrub._string_encoder.StringEncoder",
    "skrub._table_vectorizer.PassThrough",
    "skrub._table_vectorizer.ShortReprDict",
    "skrub._table_vectorizer.TableVectorizer",
    "skrub._table_vectorizer._created_by_predicate",
    "skrub._to_datetime.ToDatetime",
    "skrub._to_float.ToFloat",
    "skrub._to_str.ToStr",
    *(f"skrub.selectors._base.{name}" for name in ("All", "And", "Cols", "Filter", "Sub")),
    "skrub.selectors._selectors._cardinality_below",
}


def to_json(encoder: Encoder) -> dict[str, Any]:
    """An encoder's fields as JSON, except skrub's pipeline."""
    return {
        **{name: list(getattr(encoder, name)) for name in ("numbers", "dates", "texts", "ignored")},
        "strict": encoder.strict,
        "medians": encoder.medians.tolist(),
        "gaps": encoder.gaps.tolist(),
        "made_by": _versions() if encoder.others is not None else {},
    }


def pack(pipeline: Any) -> bytes:
    """Skrub's pipeline as bytes in skops's format."""
    found: bytes = _import_skops().dumps(pipeline, compression=zipfile.ZIP_DEFLATED)
    _check(found, {})  # what is written must be readable
    return found


def unpack(state: dict[str, Any], content: bytes | None) -> Encoder:
    """The encoder that `to_json` and `pack` were given.

    Raises:
        ValueError: the content holds anything else; types that are not listed are named.
    """
    lists = {name: tuple(state[name]) for name in ("numbers", "dates", "texts", "ignored")}
    if not all(isinstance(name, str) for names in lists.values() for name in names):
        raise ValueError("names of columns must be strings")
    return Encoder(
        **lists,
        strict=bool(state["strict"]),
        medians=np.array(state["medians"], np.float64),
        gaps=np.array(state["gaps"], np.bool_),
        others=None if content is None else _pipeline(content, state["made_by"]),
    )


def _pipeline(content: bytes, made_by: dict[str, str]) -> Any:
    skops = _import_skops()
    try:
        _check(content, made_by)
        return skops.loads(content, trusted=sorted(_TYPES | _SKRUB))
    except RecursionError:
        raise ValueError("its encoder is nested too deeply") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"its encoder is damaged: {error}") from error


def _check(content: bytes, made_by: dict[str, str]) -> None:
    """Refuse decompression bombs, and types that are not listed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > _MOST:
            raise ValueError(f"its encoder must have at most {_MOST} bytes uncompressed")
        schema = json.loads(archive.read("schema.json"))
    if schema["protocol"] < _PROTOCOL:
        raise ValueError(
            f"its encoder must have skops protocol {_PROTOCOL} or later, got {schema['protocol']}"
        )
    unknown = sorted(_names(schema) - _TYPES - _SKRUB)
    if unknown:
        raise ValueError(_unknown(unknown, made_by))


def _names(node: Any) -> set[str]:
    """The types, functions and unlisted node kinds in a skops schema."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "__loader__" in one:
                found.add(f"{one.get('__module__')}.{one.get('__class__')}")
                if one["__loader__"] not in _NODES:
                    found.add(f"skops's {one['__loader__']}")
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found


def _unknown(names: list[str], made_by: dict[str, str]) -> str:
    ours = _versions()
    other = [f"{name}=={v}" for name, v in made_by.items() if ours.get(name) != v]
    hint = f"; it was written with {' '.join(other)}: install that, or fit the model again"
    return f"its encoder holds {', '.join(names)}, which wassloss does not load" + (
        hint if other else ""
    )


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("skrub", "scikit-learn")}


def _import_skops() -> Any:
    try:
        import skops.io
        import skrub  # noqa: F401 - defines types in the file
    except ImportError as error:
        raise ImportError(
            'models of columns with text or dates need skops and skrub: pip install "wassloss[app]"'
        ) from error
    return skops.io
