"""Another name for `can_read_values`, until no solver uses it."""

from wassloss._checks import can_read_values as checking

__all__ = ["checking"]
