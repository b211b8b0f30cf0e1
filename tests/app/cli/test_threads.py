"""The thread settings of the command."""

import os
import subprocess
import sys

import pytest

ASKED = """
import os
from wassloss.app.cli import main
try:
    main()
except SystemExit:
    pass
print(os.environ["OMP_WAIT_POLICY"])
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "passive"),
        pytest.param("active", "active", marks=pytest.mark.slow),
    ],
)
def test_threads_that_wait_do_not_spin(given: str | None, found: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    if given is not None:
        environment["OMP_WAIT_POLICY"] = given
    done = subprocess.run(
        [sys.executable, "-c", ASKED, "--version"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == found
