"""Features of images: any extractor, in batches, resumable."""

from wassloss.data.features.extract import Extraction, Extractor, extract_features
from wassloss.data.features.onnx import OnnxExtractor
from wassloss.data.features.torch_module import (
    TorchExtractor,
    timm_extractor,
    torchvision_extractor,
)

__all__ = [
    "Extraction",
    "Extractor",
    "OnnxExtractor",
    "TorchExtractor",
    "extract_features",
    "timm_extractor",
    "torchvision_extractor",
]
