"""A picture in a terminal, two pixels a character."""

from __future__ import annotations

import numpy as np
from PIL import Image
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from vagen_envs.pictures import Picture


class HalfBlocks:
    """A picture as rich shows it: upper half blocks, their colour the upper pixel, their background the lower.

    It is shrunk by whole steps, so that all tiles of a board stay alike. A block of pixels becomes what lies halfway
    between their mean and the pixel that stands out most from the blocks around: with the mean alone lines of one
    pixel, such as those between FrozenLake's tiles, fade away.

    Args:
        picture: what to show.
        columns: the widest it may become; pictures are never enlarged.
    """

    def __init__(self, picture: Picture, columns: int) -> None:
        pixels = picture.pixels
        step = -(-pixels.shape[1] // columns)
        height, width = (side // step for side in pixels.shape[:2])
        left = (pixels.shape[1] - width * step) // 2
        blocks = pixels[: height * step, left : left + width * step].reshape(height, step, width, step, 3)
        blocks = blocks.transpose(0, 2, 1, 3, 4).reshape(height, width, step * step, 3).astype(float)
        mean = blocks.mean(2)
        padded = np.pad(mean, ((1, 1), (1, 1), (0, 0)), mode="edge")
        around = np.mean([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=0)
        most = np.abs(blocks - around[:, :, None]).sum(3).argmax(2)
        outstanding = np.take_along_axis(blocks, most[:, :, None, None], 2)[:, :, 0]
        shown = ((mean + outstanding) / 2).round().astype(np.uint8)
        self.image = Image.fromarray(np.concatenate([shown, shown[-1:]]) if height % 2 else shown)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        pixels = self.image.load()
        assert pixels is not None
        for row in range(0, self.image.height, 2):
            for column in range(self.image.width):
                upper, lower = (f"#{r:02x}{g:02x}{b:02x}" for r, g, b in (pixels[column, row], pixels[column, row + 1]))  # type: ignore[misc]
                yield Segment("▀", Style(color=upper, bgcolor=lower))
            yield Segment.line()
