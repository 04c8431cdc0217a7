"""The vision transformer that DINO, and DreamSim's versions of CLIP and OpenCLIP, are.

Parameters have the names that the published checkpoints have. Architecture: Dosovitskiy et al. 2021; the
variants' differences: Caron et al. 2021 (DINO), Radford et al. 2021 (CLIP: a norm before the blocks, and
x·sigmoid(1.702 x) as activation), Ilharco et al. 2021 (OpenCLIP: as CLIP, but GELU).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vagen_envs.pictures import Pixels

Kind = Literal["dino", "clip", "open_clip"]

SIZE = 224
PATCH = 16


class Attention(nn.Module):
    """Self-attention over tokens of shape (batch, tokens, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        q, k, v = self.qkv(tokens).view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, count, width))
        return out


class Mlp(nn.Module):
    """Two layers, four times as wide inside."""

    def __init__(self, width: int, kind: Kind) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.quick = kind == "clip"

    def forward(self, tokens: Tensor) -> Tensor:
        inner = self.fc1(tokens)
        out: Tensor = self.fc2(inner * torch.sigmoid(1.702 * inner) if self.quick else functional.gelu(inner))
        return out


class Block(nn.Module):
    """Attention and MLP, each after a norm and added to its input."""

    def __init__(self, width: int, heads: int, kind: Kind, eps: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.mlp = Mlp(width, kind)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attn(self.norm1(tokens))
        out: Tensor = tokens + self.mlp(self.norm2(tokens))
        return out


class PatchEmbed(nn.Module):
    """16×16 pixels to a token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, PATCH, PATCH)

    def forward(self, pictures: Tensor) -> Tensor:
        out: Tensor = self.proj(pictures).flatten(2).transpose(1, 2)
        return out


class VisionTransformer(nn.Module):
    """12 blocks on 224×224 pictures.

    Args:
        kind: which family's details.
        width, heads: 768 and 12 for the base size, 384 and 6 for the small one.
    """

    def __init__(self, kind: Kind, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        # As in timm's ViT, which DINO's weights are of, and as LayerNorm's default, which OpenCLIP's are.
        eps = 1e-6 if kind == "dino" else 1e-5
        self.patch_embed = PatchEmbed(width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (SIZE // PATCH) ** 2, width))
        self.pos_drop: nn.Module = nn.Identity() if kind == "dino" else nn.LayerNorm(width, eps=eps)
        self.blocks = nn.ModuleList([Block(width, heads, kind, eps) for _ in range(12)])
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised pictures (batch, 3, 224, 224) to the class token, (batch, width), before and after the norm."""
        tokens = self.patch_embed(pictures)
        tokens = torch.cat((self.cls_token.expand(len(tokens), -1, -1), tokens), dim=1) + self.pos_embed
        tokens = self.pos_drop(tokens)
        for block in self.blocks:
            tokens = block(tokens)
        first = tokens[:, 0]
        return first, self.norm(first)


def as_batch(pictures: Sequence[Pixels], device: torch.device) -> Tensor:
    """Pictures as floats from 0 to 1 of shape (batch, 3, 224, 224), resized if they are of another size."""
    stacked = torch.from_numpy(np.stack(pictures)).to(device).permute(0, 3, 1, 2).float() / 255
    if stacked.shape[2:] == (SIZE, SIZE):
        return stacked
    return functional.interpolate(stacked, (SIZE, SIZE), mode="bicubic", antialias=True).clamp(0, 1)
