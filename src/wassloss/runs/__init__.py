"""Runs: directories that hold what `wassloss train` fitted, to what, and how well it does.

docs/cli.md lists their files. :func:`load`, also as ``wassloss.load``, returns the classifier,
ready to predict.
"""

from wassloss.runs.directory import load

__all__ = ["load"]
