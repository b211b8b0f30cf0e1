"""Studies behind a choice or a page of the documentation, one script each."""
