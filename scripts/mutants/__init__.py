"""Small changes to the library, which some test should notice: `python -m scripts.mutants`."""
