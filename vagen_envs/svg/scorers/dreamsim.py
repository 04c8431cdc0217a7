"""DreamSim (Fu et al. 2023) and DINO (Caron et al. 2021) by their packages, `dreamsim` and `timm`.

DreamSim is the package's default, the ensemble; the score is 1 - clip(distance, 0, 1). DINO is the
small version (ViT-S/16), as VAGEN's appendix A.6 says; the score is (cosine + 1) / 2 as in its
released code, which however takes DINOv2's features. The paper cites DINO, so DINO it is.

Weights come from one local folder: the `cache_dir` of dreamsim 0.2, with DINO's small version in
`checkpoints`. The package would download what is missing, so nothing is loaded before all is there.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from vagen_envs.errors import ScorerError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import FeatureScorer

DINO_SMALL = "checkpoints/dino_deitsmall16_pretrain.pth"
FILES: tuple[str, ...] = (
    "dino_vitb16_pretrain.pth",
    "clip_vitb16_pretrain.pth.tar",
    "open_clip_vitb16_pretrain.pth.tar",
    "ensemble_lora/adapter_config.json",
    "facebookresearch_dino_main/hubconf.py",
    "checkpoints/dino_vitbase16_pretrain.pth",
    DINO_SMALL,
)
"""What the packages read; the adapter's weights are `.safetensors` or `.bin`."""

_URL = f"https://dl.fbaipublicfiles.com/dino/dino_deitsmall16_pretrain/{Path(DINO_SMALL).name}"


def command_for(folder: Path) -> str:
    """The shell command by which the packages put their weights into a folder."""
    code = (
        "import sys, torch, dreamsim; folder = sys.argv[1]; dreamsim.dreamsim(device='cpu', "
        f"cache_dir=folder); torch.hub.load_state_dict_from_url('{_URL}', folder + "
        "'/checkpoints')"
    )
    return f'python -c "{code}" {shlex.quote(str(folder))}'


class DreamSimScorer(FeatureScorer[tuple[Tensor, Tensor]]):
    """DreamSim and DINO together: `{"dreamsim": …, "dino": …}`, from a folder that has all `FILES`.

    Raises:
        ScorerError: the packages can't read a file.
    """

    name = "dreamsim"

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        super().__init__()
        import dreamsim
        import timm

        self._device = device
        try:
            # It prints to stdout, where a service's caller reads.
            with contextlib.redirect_stdout(sys.stderr):
                self._dreamsim, self._preprocess = dreamsim.dreamsim(
                    cache_dir=str(folder), device=device
                )
            dino = timm.create_model(
                "vit_small_patch16_224.dino", checkpoint_path=str(folder / DINO_SMALL)
            )
        except Exception as error:  # whatever the packages raise
            raise ScorerError(
                f"the packages can't read the weights in {folder} ({type(error).__name__}: "
                f"{error}); get them again: {command_for(folder)}"
            ) from error
        self._dino = dino.eval().requires_grad_(False).to(device)
        means = timm.data.resolve_model_data_config(dino)
        self._mean, self._std = (
            torch.tensor(means[name]).view(1, 3, 1, 1).to(device) for name in ("mean", "std")
        )
        self.version = (
            f"dreamsim-{version('dreamsim')}-ensemble+dino-vits16-timm-{timm.__version__}"
        )

    def features(self, pictures: Sequence[Pixels]) -> list[tuple[Tensor, Tensor]]:
        batch = torch.cat([self._preprocess(Image.fromarray(each)) for each in pictures]).to(
            self._device
        )
        with torch.inference_mode():
            dream = self._dreamsim.embed(batch)
            dino = self._dino((batch - self._mean) / self._std)
        return list(zip(dream.cpu(), dino.cpu(), strict=True))

    def compare(
        self, target: tuple[Tensor, Tensor], picture: tuple[Tensor, Tensor]
    ) -> Mapping[str, float]:
        dream, dino = (
            float(functional.cosine_similarity(a, b, dim=0))
            for a, b in zip(target, picture, strict=True)
        )
        return {
            "dreamsim": min(1.0, max(0.0, dream)),
            "dino": min(1.0, max(0.0, (dino + 1.0) / 2.0)),
        }
