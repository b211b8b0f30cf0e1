"""Networks trained with one loss after another on the same data, and what they get wrong."""
