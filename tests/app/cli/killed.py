"""`python killed.py CALL WHEN WORDS...`: a command that is killed before or after a call of os."""

import os
import signal
import sys
from typing import Any

CALL, WHEN, *WORDS = sys.argv[1:]
real = getattr(os, CALL)


def killed(*arguments: Any, **more: Any) -> Any:
    if WHEN == "after":
        real(*arguments, **more)
    os.kill(os.getpid(), signal.SIGKILL)


setattr(os, CALL, killed)
sys.argv = ["wassloss", *WORDS]

from wassloss.app.cli import main  # noqa: E402 -- as the script that pip makes

main()
