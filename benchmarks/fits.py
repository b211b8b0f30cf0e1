"""`WassersteinClassifier.fit` against scikit-learn's: `python benchmarks/fits.py [rows …]`.

Five ordered classes of 20 features, everything at its defaults; times are medians of fits taken in
turns, and ratios are over `LogisticRegression().fit`. Set `OMP_NUM_THREADS` and
`OPENBLAS_NUM_THREADS` for the number of threads. On a machine that does other work compare the
processor times, which are the least of all fits.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import wassloss as wl

ROWS = (1000, 20_000, 200_000)
FEATURES, CUTS = 20, (-1.2, -0.4, 0.4, 1.2)
SECONDS = 10.0  # for each number of rows

CONTENDERS: dict[str, Callable[[], object]] = {
    "LogisticRegression": LogisticRegression,
    "linear": lambda: wl.WassersteinClassifier("ordinal"),
    "linear, KL alone": lambda: wl.WassersteinClassifier(
        "ordinal", transport_weight=0, kl_weight=1
    ),
    "perceptron of 32": lambda: wl.WassersteinClassifier("ordinal", hidden_layer_sizes=(32,)),
}


def graded(rows: int, correlation: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features, which may share a component, and grades of a weighted sum with heavy noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES))
    x = np.sqrt(1 - correlation) * x + np.sqrt(correlation) * rng.normal(size=(rows, 1))
    weights = rng.normal(size=FEATURES)
    score = x @ weights / np.linalg.norm(weights) + 0.7 * rng.standard_t(4, size=rows)
    return x, np.digitize(score, CUTS)


def timed(rows: int, correlation: float) -> dict[str, tuple[float, float, int]]:
    """Seconds of each contender by the clock and of the processor, and iterations."""
    x, y = graded(rows, correlation)
    clock: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    processor: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    iterations, began = {}, time.perf_counter()
    while time.perf_counter() - began < SECONDS or len(clock["linear"]) < 4:
        for name, make in CONTENDERS.items():
            started = time.perf_counter(), time.process_time()
            model = make().fit(x, y)  # type: ignore[attr-defined]
            clock[name].append(time.perf_counter() - started[0])
            processor[name].append(time.process_time() - started[1])
            iterations[name] = int(np.max(model.n_iter_))
    return {  # without the first, which loads libraries
        name: (statistics.median(clock[name][1:]), min(processor[name][1:]), iterations[name])
        for name in CONTENDERS
    }


def main(sizes: tuple[int, ...]) -> None:
    print("| rows | correlation | fit | ms | ratio | processor ms | ratio | iterations |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for correlation in (0.0, 0.95):
        for rows in sizes:
            found = timed(rows, correlation)
            reference = found["LogisticRegression"]
            for name, (seconds, processor, iterations) in found.items():
                print(
                    f"| {rows} | {correlation} | {name} | {1e3 * seconds:.1f} | "
                    f"{seconds / reference[0]:.2f} | {1e3 * processor:.1f} | "
                    f"{processor / reference[1]:.2f} | {iterations} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or ROWS)
