"""Options of `vagen/SVGReconstruction-v0`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from vagen_envs.bounds import REWARD, Number, OneOf, Open, Whole
from vagen_envs.config import EnvConfig
from vagen_envs.svg.dataset import load_dataset
from vagen_envs.svg.renderer import MAX_SIZE, RendererName
from vagen_envs.svg.scorers import ScorerName
from vagen_envs.tables import SplitBy

MOST_SHAPES = 10_000
"""More shapes than any icon has: as `max_shapes` it is no limit."""
_RUNGS = (
    (1, 2, 0.85),
    (3, 3, 0.85),
    (4, 4, 0.9),
    (5, 5, 0.9),
    (6, 7, 0.99),
    (8, MOST_SHAPES, 0.99),
)
"""Fewest and most shapes, and the score of success: the more shapes, the less does a missing one
change the score.
"""


@dataclass(frozen=True, kw_only=True)
class SvgConfig(EnvConfig):
    """Options of `vagen/SVGReconstruction-v0`; the defaults are VAGEN's tables 15 and 20, but for
    the data set.

    The paper's data set, starvector/svg-icons-simple, states no licence, so it isn't shipped: give
    the folder of your copy as `dataset`.
    """

    level_fields: ClassVar[tuple[str, ...]] = ("dataset", "max_target_length")
    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"min_shapes": fewest, "max_shapes": most, "success_score": enough, "scorer": "classical"}
        for fewest, most, enough in _RUNGS
    )

    dataset: str = "builtin"
    """`builtin` (flat colour icons of this package), `mono` (the extra `svg-mono`), or the path of
    a folder, `.parquet`, `.arrow` or `.jsonl` file with `Svg` and `Filename`; see
    `load_dataset`."""
    split_by: SplitBy = "published"
    """Whether the data's own splits are kept, where it has any, or all icons are split by
    `content`, or stand in every split (`all`).
    """
    max_target_length: Annotated[int, Whole(1, 12_000), Open(Whole(1000, 12_000))] = 8_000
    """Characters of a target's SVG; longer ones are left out, so that an answer has room for it."""
    min_shapes: Annotated[int, Whole(0, MOST_SHAPES), Open(Whole(0, 8))] = 0
    """Targets with fewer shapes are left out."""
    max_shapes: Annotated[int, Whole(0, MOST_SHAPES), Open(Whole(2, MOST_SHAPES))] = MOST_SHAPES
    """Targets with more shapes are left out."""
    size: Annotated[int, Whole(32, MAX_SIZE), Open(Whole(32, 512))] = 224
    """Pixels a side of target and drawing, 32 to 1024. DreamSim and DINO look at 224."""
    renderer: RendererName = "resvg"
    """What draws targets and answers: `resvg`, as browsers do, or `cairosvg`, the paper's, which
    knows less of SVG.
    """
    scorer: Annotated[ScorerName, Open(OneOf(("auto", "classical")))] = "auto"
    """`dreamsim` (the paper's, with DINO), `lpips` or `classical`; `auto` is the first of these
    that has all it needs here. Which one it was stands in the metric `scorer` of each turn."""
    scorer_weights: str = ""
    """Folder of DreamSim's and DINO's weights; by default `$VAGEN_DREAMSIM_WEIGHTS`."""
    scorer_address: str = ""
    """Address of a running scorer service, which scores in place of this process; see
    `ScorerService`.
    """
    similarity_reward: Annotated[float, Open(REWARD)] = 5.0
    """Weight of the score in each turn, whatever the scorer (table 20: "DreamSim weight")."""
    dino_reward: Annotated[float, Open(REWARD)] = 0.0001
    """Times the DINO score, each turn, where the scorer gives one (table 20: "Dino weight")."""
    success_score: Annotated[float | None, Open(Number(0.0, 1.0))] = None
    """From this score on, the final picture counts as the target in the metric `success`; by
    default where the scorer finds the two the same, see `SAME_PICTURE`. The paper has no success
    for this task."""
    show_drawing: Annotated[bool, Open()] = True
    """Whether the picture shows the last drawing beside the target, and the text its similarity.
    Without, turns show the target alone, as VAGEN's appendix B does."""
    separator: str = "~~"
    max_actions_per_turn: Annotated[int, Open(Whole(1, 3))] = 1
    max_turns: int = 2

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        self.require(
            self.min_shapes <= self.max_shapes,
            "max_shapes",
            f"from {self.min_shapes} to {MOST_SHAPES}",
        )
        enough = self.success_score
        self.require(enough is None or 0 < enough <= 1, "success_score", "above 0 and at most 1")

    def level_key(self) -> dict[str, Any]:
        """Levels depend on what the icons are, not on the path where they lie."""
        fingerprint = load_dataset(self.dataset, self.max_target_length, self.split_by).fingerprint
        shapes = [self.min_shapes, self.max_shapes]
        kept = {} if shapes == [0, MOST_SHAPES] else {"shapes": shapes}
        return {**EnvConfig.level_key(self), "dataset": fingerprint, **kept}
