"""A picture in a terminal: two pixels a character."""

from __future__ import annotations

from PIL import Image
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from vagen_envs.pictures import Picture


class HalfBlocks:
    """A picture as rich shows it: upper half blocks, their colour the upper pixel, their background the lower.

    Args:
        columns: the widest it may become; pictures are shrunk to it and never enlarged.
    """

    def __init__(self, picture: Picture, columns: int) -> None:
        image = picture.pil
        width = min(columns, image.width)
        height = max(2, round(image.height * width / image.width / 2) * 2)
        self.image = image.resize((width, height), Image.Resampling.BOX)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        pixels = self.image.load()
        assert pixels is not None
        for row in range(0, self.image.height, 2):
            for column in range(self.image.width):
                upper, lower = (f"#{r:02x}{g:02x}{b:02x}" for r, g, b in (pixels[column, row], pixels[column, row + 1]))  # type: ignore[misc]
                yield Segment("▀", Style(color=upper, bgcolor=lower))
            yield Segment.line()
