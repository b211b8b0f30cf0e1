"""The paper's figures and claims, computed again: numbers first, then figures and verdicts.

Every experiment is a file of this folder. `compute` makes numbers that go into a JSON file with
all they depend on; `draw` and `verdict` read nothing else.

>>> from wassloss import reproduce
>>> reproduce.EXPERIMENTS["lattice"].figure
'figures 2 and 8'
"""

from wassloss.reproduce.experiment import Experiment, Outcome, Verdict
from wassloss.reproduce.page import write_page
from wassloss.reproduce.registry import EXPERIMENTS, find_experiment
from wassloss.reproduce.run import load_results, reproduce

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Verdict",
    "find_experiment",
    "load_results",
    "reproduce",
    "write_page",
]
