"""Draw adapters/vagen_adapters/two_player_sokoban/tiles.png: Sokoban's tiles and the other player's
two.

The other player is the player in blue with an orange belly, so that it differs in shape and not
only in colour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parent.parent
SIDE, PLAYER, PLAYER_ON_TARGET = 16, 5, 6
BLUE, ORANGE = (60, 130, 250), (250, 170, 60)


def main() -> None:
    """Write the strip."""
    strip = np.asarray(Image.open(ROOT / "vagen_envs/sokoban/tiles.png").convert("RGB"))
    others = []
    for tile in (PLAYER, PLAYER_ON_TARGET):
        pixels = strip[:, tile * SIDE : (tile + 1) * SIDE].copy()
        body = (pixels[..., 1] > 150) & (pixels[..., 0] < 120)
        pixels[body] = BLUE
        belly = np.zeros_like(body)
        belly[8:11, 5:11] = True
        pixels[belly & body] = ORANGE
        others.append(pixels)
    target = ROOT / "adapters/vagen_adapters/two_player_sokoban/tiles.png"
    Image.fromarray(np.concatenate([strip, *others], axis=1)).quantize(16).save(
        target, optimize=True
    )
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
