"""`python interrupted.py MODULE WORDS...`: a command with Ctrl-C as soon as it imports MODULE.

With a name that has a dot at its end, such as `metric.npz.`, when it opens such a file or gives a
finished one this name; with `exit`, at the end of the interpreter.
"""

import atexit
import os
import signal
import sys
from typing import Any

WHEN, *WORDS = sys.argv[1:]
sent = False
# Whatever the shell that runs the tests does: Python would inherit that it ignores interrupts.
ignored = bool(os.environ.get("IGNORE_INTERRUPTS"))
signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)


def interrupt() -> None:
    global sent
    if not sent:
        sent = True
        os.kill(os.getpid(), signal.SIGINT)


class Watch:
    """Finds no module, but sees which are looked for."""

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
