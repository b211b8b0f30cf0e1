"""Reproduce the paper's figures and claims, and run experiments that go beyond them.

Run from a checkout with ``python -m experiments``; see ``experiments/README.md``. Each experiment
is one file of ``experiments/figures``: `compute` returns numbers, which are written to a JSON file
with everything they depend on; `draw` and `verdict` read only that file.
"""
