"""Features of images: any extractor, in batches, resumable."""

from experiments.corpora.features.extract import Extraction, Extractor, extract_features
from experiments.corpora.features.onnx import OnnxExtractor
from experiments.corpora.features.torch_module import (
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
