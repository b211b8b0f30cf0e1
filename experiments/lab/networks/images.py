"""Residual networks on small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for images of 32 pixels: a 3 × 3 stem without pooling.

    It takes bytes and, in training mode, shifts images by up to four pixels and flips them.

    Args:
        labels: number of labels.
        width: channels of the first stage; 64 is the usual network.
    """

    def __init__(self, labels: int, width: int = 64) -> None:
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.Sequential(
            *(
                Block(widths[i] if first else widths[i + 1], widths[i + 1], stride)
                for i in range(4)
                for first, stride in ((True, 1 if i == 0 else 2), (False, 1))
            )
        )
        self.head = nn.Linear(widths[-1], labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        images = x.float() / 127.5 - 1
        if self.training:
            images = _augmented(images)
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            logits: Tensor = self.head(self.stages(self.stem(images)).mean((2, 3)))
        return logits.float()


def _augmented(images: Tensor) -> Tensor:
    n, _, height, width = images.shape
    padded = functional.pad(images, (4, 4, 4, 4))
    top, left = torch.randint(9, (2, n, 1), device=images.device)
    rows = (top + torch.arange(height, device=images.device))[:, None, :, None]
    columns = torch.arange(width, device=images.device).expand(n, -1)
    flipped = torch.rand(n, 1, device=images.device) < 0.5
    columns = left + torch.where(flipped, columns.flip(1), columns)
    examples = torch.arange(n, device=images.device)[:, None, None, None]
    channels = torch.arange(3, device=images.device)[None, :, None, None]
    return padded[examples, channels, rows, columns[:, None, None, :]]
