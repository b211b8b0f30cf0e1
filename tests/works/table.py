"""What works where: a cell is right unless a line here marks it as refused or known to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.works.cells import LOSSES, Cell

PLAIN = tuple(name for name in LOSSES if name.startswith("baselines.") and "SoftLabel" not in name)
SOLVED = tuple(name for name in LOSSES if name not in PLAIN)
FUNCTIONS = tuple(name for name in LOSSES if name.startswith("wasserstein"))
MODULES = tuple(name for name in SOLVED if name not in FUNCTIONS)
HEAD = ("LinearWassersteinLoss",)
EXACT = ("WassersteinLoss, exact", "wasserstein, exact")


@dataclass(frozen=True)
class Line:
    """Cells by coordinates: a named one must be among the values, others may be anything."""

    words: str  # for the page
    error: str = ""  # part of the message of a refusal
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    example: Cell | None = None  # of a line known to be wrong

    def covers(self, cell: Cell) -> bool:
        return all(getattr(cell, name) in values for name, values in self.where.items())


REFUSED = [
    Line(
        "the Sinkhorn divergence needs a distance",
        "debiased must be False",
        {"loss": ("WassersteinLoss, debiased",), "metric": ("asymmetric cost",)},
    ),
    Line(
        "first derivatives only",
        "differentiable once",
        {"loss": SOLVED, "mode": ("double backward",)},
    ),
    Line(
        "no forward-mode derivative",
        "have no forward-mode derivative",
        {"loss": tuple(name for name in SOLVED if name not in HEAD), "mode": ("forward mode",)},
    ),
    Line(
        "losses are already batched",
        "must not be batched by torch.func.vmap",
        {"loss": tuple(name for name in SOLVED if name not in HEAD), "mode": ("torch.vmap",)},
    ),
    Line(
        "functions need a metric on the input's device",
        "must be on the ground metric's device",
        {"loss": FUNCTIONS, "mode": ("meta device",)},
    ),
]


def example(loss: str, metric: str, target: str, dtype: str, mode: str) -> Cell:
    return Cell(loss, metric, target, dtype, "contiguous", mode)


# Each line has an example that is wrong. A test fails once it is right: then delete the line.
KNOWN_WRONG: list[Line] = [
    Line(
        "computed in bfloat16 under autocast",
        where={"loss": ("baselines.QuadraticFormLoss",), "mode": ("autocast",)},
        example=example("baselines.QuadraticFormLoss", "discrete", "coo", "float32", "autocast"),
    ),
    Line(
        "an error of torch: exact transport within torch.func",
        where={"loss": EXACT, "mode": ("torch.func.grad",)},
        example=example("wasserstein, exact", "matrix", "dense", "float64", "torch.func.grad"),
    ),
    Line(
        "an error of torch: the head within torch.func",
        where={"loss": HEAD, "mode": ("torch.func.grad", "forward mode", "torch.vmap")},
        example=example(*HEAD, "line", "class ids", "float64", "torch.func.grad"),
    ),
    Line(
        "an error of torch: baselines within torch.vmap",
        where={"loss": PLAIN, "mode": ("torch.vmap",)},
        example=example("baselines.KLLoss", "line", "dense", "float64", "torch.vmap"),
    ),
    Line(
        "an error of torch: modules on the meta device",
        where={"loss": (*MODULES, *PLAIN), "mode": ("meta device",)},
        example=example("WassersteinLoss", "line", "dense", "float64", "meta device"),
    ),
]


def line_of(cell: Cell, lines: list[Line]) -> Line | None:
    return next((line for line in lines if line.covers(cell)), None)
