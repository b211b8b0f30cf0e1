"""Check the built-in clip art against its source, and rebuild it."""
