"""`python interrupted.py MODULE WORDS...`: run a command, with Ctrl-C when it imports MODULE.

If the name ends in a dot, such as `metric.npz.`, interrupt when the command opens such a file or
renames a finished one to it; with `exit`, when the interpreter exits.
"""

import atexit
import os
import signal
import sys
from typing import Any

WHEN, *WORDS = sys.argv[1:]
sent = False
# Handle interrupts even if the shell that runs the tests ignores them, which Python would inherit.
ignored = bool(os.environ.get("IGNORE_INTERRUPTS"))
signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)


def interrupt() -> None:
    global sent
    if not sent:
        sent = True
        os.kill(os.getpid(), signal.SIGINT)


class Watch:
    """An import hook that finds no module, but sees which are requested."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == WHEN:
            interrupt()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "os.rename") or not WHEN.endswith("."):
        return
    if any(f"{path}.".endswith(WHEN) for path in arguments[:2]):
        interrupt()


if WHEN == "exit":
    atexit.register(interrupt)
sys.meta_path.insert(0, Watch)  # type: ignore[arg-type]
sys.addaudithook(audit)
sys.argv = ["wassloss", *WORDS]

from wassloss.app.cli import main  # noqa: E402 -- as the script that pip makes

main()
