"""Real data sets, if they are on this machine."""

import os
from pathlib import Path

import pytest

VARIABLE = "WASSLOSS_DATA"


def needs(file: str) -> pytest.MarkDecorator:
    """Skip a test unless ``file`` is in $WASSLOSS_DATA."""
    folder = os.environ.get(VARIABLE)
    here = folder is not None and Path(folder, file).is_file()
    return pytest.mark.skipif(not here, reason=f"${VARIABLE}/{file} is not there")
