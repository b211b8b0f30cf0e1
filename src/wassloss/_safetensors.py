"""Safetensors, which is part of an extra: imported when first used."""

from __future__ import annotations

from typing import Any


def import_safetensors() -> Any:
    """The package with its functions for torch."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            'files of models need safetensors: pip install "wassloss[train]"'
        ) from error
    return safetensors
