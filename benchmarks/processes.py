"""Worker processes, one per library, with a time limit for each job."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

WORKER = Path(__file__).parent / "worker.py"
STARTING = 60.0  # additional seconds for imports
# After one of these errors the device is unusable, and everything after it fails.
BROKEN = ("CUDA error", "AcceleratorError", "JaxRuntimeError", "XlaRuntimeError", "capture")


class Worker:
    """A process that is started at the first job, and again after it broke."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._log: IO[str] | None = None
        self._reader: threading.Thread | None = None
        self._fresh = True

    def start(self) -> None:
        self._fresh, self._answers = True, queue.Queue()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ},
        )
        # Passed as an argument, so that a late answer of an earlier process cannot get into it.
        arguments = self._process.stdout, self._answers
        self._reader = threading.Thread(target=_read, args=arguments, daemon=True)
        self._reader.start()

    def ask(
        self, job: dict[str, Any], patience: float, starting: float = STARTING
    ) -> dict[str, Any]:
        """Return the answer to a job, or the reason why there is none as `not_run`."""
        if self._process is None:
            self.start()
        patience += starting if self._fresh else 0.0
        self._fresh = False
        try:
            self._process.stdin.write(json.dumps(job) + "\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
            line = self._answers.get(timeout=patience)
        except queue.Empty:
            self.stop()
            return {"not_run": f"ended after {patience:.0f} s without an answer"}
        except BrokenPipeError:
            line = ""
        if not line:
            reason = self._last_words()
            self.stop()
            return {"not_run": f"failed: the process ended, {reason}"}
        found: dict[str, Any] = json.loads(line)
        if any(sign in (found.get("not_run") or "") for sign in BROKEN):
            self.stop()
        return found

    def _last_words(self) -> str:
        code = self._process.wait()  # type: ignore[union-attr]
        self._log.seek(0)  # type: ignore[union-attr]
        lines = [line.strip() for line in self._log or () if line.strip()]
        return f"exit status {code}: {lines[-1][:200] if lines else 'no output'}"

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._reader.join()  # type: ignore[union-attr]
        self._log.close()  # type: ignore[union-attr]
        with suppress(BrokenPipeError):  # the process ended before it read the job
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process = None


def _read(lines: IO[str], answers: queue.Queue[str]) -> None:
    with lines:
        for line in lines:
            answers.put(line)
    answers.put("")
