import os
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile(
    "long", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)  # problems are tiny, so a second thread would only wait


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For tests that fork: a child inherits torch's state of its threads, but not the threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


_SEEN = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    line = "one_in(n): of a test's many combinations of parameters, all but every n-th are slow"
    config.addinivalue_line("markers", line)
    config.stash[_SEEN] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Choose an `n` coprime to the numbers of parameter values, so that each value occurs.

    With a GPU all cases run, because only on a CPU are kernels interpreted, which is slow.
    """
    sampled = item.get_closest_marker("one_in")
    if sampled is not None and not torch.cuda.is_available():
        seen, test = item.config.stash[_SEEN], item.nodeid.split("[")[0]
        if seen[test] % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1
