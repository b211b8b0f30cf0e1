"""The paper's figures and claims, computed again, and experiments that go beyond them.

Run from a checkout with ``python -m experiments``; see ``experiments/README.md``. Each experiment
is one file of ``experiments/figures``: `compute` returns numbers, which go into a JSON file with
everything they depend on; `draw` and `verdict` read only that file.
"""
