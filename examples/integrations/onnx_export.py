"""ONNX: an exported linear model gives the same answers without torch or wassloss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import torch
from grades import GRADES, graded_patients

import wassloss as wl


class Probabilities(torch.nn.Module):
    """The deployed model: features to probabilities, without the loss."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.model(features).softmax(1)


def main(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Train, export and run; return the probabilities of torch and of the exported file."""
    torch.manual_seed(0)
    x, y = graded_patients()
    model = wl.models.Linear(x.shape[1], GRADES)
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(GRADES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(model(x[:300]), y[:300]).backward()
        optimizer.step()

    deployed = Probabilities(model).eval()
    torch.onnx.export(
        deployed,
        (x[:2],),
        path,
        dynamo=True,
        verbose=False,
        external_data=False,
        input_names=["features"],
        output_names=["probabilities"],
        dynamic_shapes={"features": {0: torch.export.Dim("batch")}},
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (answer,) = session.run(["probabilities"], {"features": x[300:].numpy()})
    with torch.no_grad():
        return deployed(x[300:]).numpy(), answer


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        expected, answer = main(Path(folder) / "grades.onnx")
        print(f"largest difference: {abs(expected - answer).max():.1e}")
