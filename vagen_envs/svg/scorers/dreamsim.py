"""DreamSim (Fu et al. 2023) and DINO (Caron et al. 2021) from their authors' weights.

DreamSim here is its ensemble: the class token of DINO ViT-B/16 before the last norm, and the projected
class tokens of CLIP and OpenCLIP ViT-B/16, each network with its LoRA weights, joined, centred and compared
by cosine; the score is 1 - clip(distance, 0, 1). The dreamsim package does the same, but needs torchvision,
timm, open_clip and peft, and downloads by itself.

DINO is the small version (ViT-S/16), as VAGEN's appendix A.6 says; the score is (cosine + 1) / 2 as in its
released code, which however takes DINOv2's features. The paper cites DINO, so DINO it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import Remembered, ScorerError
from vagen_envs.svg.scorers.vit import Kind, VisionTransformer, as_batch
from vagen_envs.svg.scorers.weights import ADAPTER, CLIP, DINO_BASE, DINO_SMALL, FILES, OPEN_CLIP, load, load_adapter

_BATCH = 64
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


class _Network(nn.Module):
    """One network with what its pictures are normalised by, and its projection if it has one."""

    mean: Tensor
    std: Tensor

    def __init__(self, kind: Kind, state: Mapping[str, Tensor], file: str, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        mean, std = _IMAGENET if kind == "dino" else _CLIP
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))
        with torch.device("meta"):  # no time for initial values that are replaced at once
            self.vit = VisionTransformer(kind, width, heads)
        rest = {name: tensor.float().contiguous() for name, tensor in state.items()}
        projection = rest.pop("proj", None)
        if (projection is None) != (kind == "dino"):
            raise ScorerError(f"{file} is not a {kind} checkpoint: its projection; get it from {FILES[file]}")
        self.projection = None if projection is None else nn.Parameter(projection)
        try:
            self.vit.load_state_dict(rest, assign=True)
        except RuntimeError as error:
            message = str(error)[:300]
            raise ScorerError(f"{file} is not the expected network ({message}); get it from {FILES[file]}") from error

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        before, after = self.vit((pictures - self.mean) / self.std)
        return before, after if self.projection is None else after @ self.projection


class DreamSim(nn.Module):
    """The ensemble: pictures (batch, 3, 224, 224) from 0 to 1, to embeddings (batch, 1792) of length 1."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        names = (DINO_BASE, CLIP, OPEN_CLIP)
        kinds: tuple[Kind, ...] = ("dino", "clip", "open_clip")
        self.networks = nn.ModuleList(
            [_Network(kind, load(folder, name), name) for kind, name in zip(kinds, names, strict=True)]
        )
        for (index, name), change in load_adapter(folder).items():
            try:
                weight = self.networks[index].vit.get_parameter(name)
                with torch.no_grad():
                    weight += change
            except (IndexError, AttributeError, RuntimeError) as error:
                raise ScorerError(
                    f"the LoRA weight {name!r} of network {index} fits nothing ({error}); get {FILES[ADAPTER]}"
                ) from error

    def forward(self, pictures: Tensor) -> Tensor:
        dino, clip, open_clip = self.networks
        joined = torch.cat((dino(pictures)[0], clip(pictures)[1], open_clip(pictures)[1]), dim=1)
        return functional.normalize(joined - joined.mean(dim=1, keepdim=True), dim=1)


class DreamSimScorer:
    """DreamSim and DINO together: `{"dreamsim": …, "dino": …}`.

    Args:
        folder: as `vagen_envs.svg.scorers.weights` describes.
        device: where to compute.

    Raises:
        ScorerError: a file is not what it should be.
    """

    name = "dreamsim"

    def __init__(self, folder: Path, device: torch.device | None = None) -> None:
        self._device = device or torch.device("cpu")
        self._dreamsim = DreamSim(folder).eval().requires_grad_(False).to(self._device)
        dino = _Network("dino", load(folder, DINO_SMALL), DINO_SMALL, 384, 6)
        self._dino = dino.eval().requires_grad_(False).to(self._device)
        self._targets = Remembered(4096)
        self.version = f"dreamsim-ensemble-0.2+dino-vits16 ({_fingerprint(folder)})"

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> list[Mapping[str, float]]:
        wanted = self._targets.get_all(targets, self._embed)
        drawn = self._embed(pictures)
        scores: list[Mapping[str, float]] = []
        for (dream_a, dino_a), (dream_b, dino_b) in zip(wanted, drawn, strict=True):
            distance = 1.0 - float(dream_a @ dream_b)
            scores.append({
                "dreamsim": 1.0 - min(1.0, max(0.0, distance)),
                "dino": min(1.0, max(0.0, (float(dino_a @ dino_b) + 1.0) / 2.0)),
            })  # fmt: skip
        return scores

    def _embed(self, pictures: Sequence[Pixels]) -> list[tuple[Tensor, Tensor]]:
        found: list[tuple[Tensor, Tensor]] = []
        for start in range(0, len(pictures), _BATCH):
            batch = as_batch(pictures[start : start + _BATCH], self._device)
            with torch.inference_mode():
                dream = self._dreamsim(batch)
                dino = functional.normalize(self._dino(batch)[1], dim=1)
            found += zip(dream.double().cpu(), dino.double().cpu(), strict=True)
        return found


def _fingerprint(folder: Path) -> str:
    """Which weights these are: a hash over names and sizes, and over the contents of files below 64 MiB."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.name.startswith(("adapter", "dino", "clip", "open"))):
        if file.is_file():
            digest.update(f"{file.relative_to(folder)} {file.stat().st_size}\n".encode())
            # Backbones have hundreds of megabytes, read at each start; what DreamSim trained is in small files.
            digest.update(file.read_bytes() if file.stat().st_size < 1 << 26 else b"")
    return digest.hexdigest()[:12]
