"""The built-in clip art, checked against its source and made again from it."""
