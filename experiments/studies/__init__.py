"""Studies behind a choice or a page of the documentation, each a script of its own."""
