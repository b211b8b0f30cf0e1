"""`wassloss train`, as a program that a test kills: it leaves a file once it opens its data."""

import os
import sys
from pathlib import Path
from typing import Any

MARK, DATA, *WORDS = sys.argv[1:]


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]) == DATA and not os.path.exists(MARK):
        Path(MARK).touch()


sys.addaudithook(audit)
sys.argv = ["wassloss", "train", DATA, *WORDS]

from wassloss.app.cli import main  # noqa: E402 -- what is watched has to be watched first

main()
