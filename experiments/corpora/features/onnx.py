"""Features from an ONNX model."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.features._scaling import MEAN, STD, scaled


class OnnxExtractor:
    """Any ONNX model with inputs `(n, 3, height, width)` and outputs `(n, features, ...)`.

    Dimensions beyond the second are averaged over. Needs ``onnxruntime``.

    Args:
        path: the model.
        size: height and width of its input; default: those in the model.
        output: name of the output to use; default: the first.
        mean, std: mean and standard deviation to normalise pixels in [0, 1] with, per colour.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size: tuple[int, int] | None = None,
        output: str | None = None,
        mean: tuple[float, float, float] = MEAN,
        std: tuple[float, float, float] = STD,
    ) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("ONNX models need onnxruntime: pip install onnxruntime") from error
        raw = Path(path).read_bytes()
        try:
            self._session: Any = onnxruntime.InferenceSession(raw)
        except Exception as error:  # onnxruntime's errors have no common base class
            said = " ".join(str(error).split())
            raise ValueError(f"{os.fspath(path)} is not an ONNX model: {said}") from error
        given = self._session.get_inputs()[0]
        self._input = given.name
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = outputs[0] if output is None else output
        if self._output not in outputs:
            raise ValueError(f"output must be one of {', '.join(outputs)}, got {output!r}")
        shape = given.shape
        if size is None:
            if len(shape) != 4 or not all(isinstance(side, int) for side in shape[2:]):
                raise ValueError(f"size must be given, for the model's input is {shape}")
            size = (shape[2], shape[3])
        self.size = size
        self._scaling = mean, std
        digest = hashlib.sha256(raw).hexdigest()[:16]
        self.name = f"onnx {digest} {self._output} {mean} {std}"

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
        found = self._session.run([self._output], {self._input: scaled(images, *self._scaling)})[0]
        return np.asarray(found.reshape(*found.shape[:2], -1).mean(-1))
