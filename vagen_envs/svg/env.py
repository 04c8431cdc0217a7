"""`vagen/SVGReconstruction-v0`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from vagen_envs.bounds import REWARD, Number, OneOf, Open, Whole
from vagen_envs.config import EnvConfig
from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.pictures import Picture, Pixels
from vagen_envs.replies import Action, ActionGrammar
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.svg.answer import SvgText, trace
from vagen_envs.svg.dataset import Icon, content_of, icons_of, load_dataset
from vagen_envs.svg.renderer import MAX_SIZE, RendererName, shared_renderer
from vagen_envs.svg.scorers import SAME_PICTURE, SCORERS, ScorerName, make_scorer, missing
from vagen_envs.svg.scorers.base import Scorer
from vagen_envs.svg.scorers.service import RemoteScorer
from vagen_envs.svg.state import SvgState, elements
from vagen_envs.tables import SplitBy

GAP = 8
"""Pixels between target and drawing."""

MOST_SHAPES = 10_000
"""Of an icon; `max_shapes` is then no limit."""

MOST_NAMED = 8
"""Names that a turn's feedback lists of what isn't drawn as in a browser."""

_GREY = 128  # between the two
_MOST_TRIES = 1_000
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
    """Of a running scorer service, which then scores instead of this process; see
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


class SvgEnv(VagenEnv):
    """Write the SVG of a picture; see what it draws beside the target, and improve it.

    Action: one SVG (VAGEN, table 14). The picture shows the target on the left and the last drawing
    on the right, grey while there is none. An SVG that can't be drawn, or that isn't safe to draw,
    scores 0 and the observation gives the reason. An episode lasts all its turns, since each turn
    earns its score anew: one that ended early would punish a good first drawing. `difficulty` sets
    how many shapes the targets have (up to 2, 3, 4, 5, 6 or 7, and 8 or more), and the classical
    score that counts as `success` (0.85 on rungs 0 and 1, 0.9 on 2 and 3, 0.99 on 4 and 5).

    Metrics of a turn: `score` (of the drawing now; 0 if there is none), `best_score` (of the
    episode so far), each score by its name, `scorer` (its version), `svg_length` (characters).

    Version history:
        v0: first release.
    """

    id = "vagen/SVGReconstruction-v0"
    config_class = SvgConfig
    prompt_folder = "svg"
    test_episodes = 32
    blind_search = (8, 4)
    comparison_levels = 48
    replays_comparisons = False
    config: SvgConfig

    def _actions(self) -> ActionGrammar:
        return SvgText()

    def _constants(self) -> dict[str, str]:
        return {"similarity_reward": f"{self.config.similarity_reward:g}"}

    def _picture_shape(self) -> tuple[int, int, int]:
        config = self.config
        self._renderer = shared_renderer(config.renderer)
        # A drawing is asked for several times in a turn, and drawn anew after a restore.
        self._draw = functools.lru_cache(maxsize=2)(
            functools.partial(self._renderer.draw, size=config.size)
        )
        self._scorer: Scorer
        if config.scorer_address:
            self._scorer = RemoteScorer(config.scorer_address, config.scorer)
        else:
            self._scorer = make_scorer(config.scorer, config.scorer_weights)
        self._enough = config.success_score or SAME_PICTURE[self._scorer.name]
        return config.size, 2 * config.size + GAP if config.show_drawing else config.size, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        config = self.config
        icons = self._icons(split)
        if not icons:
            raise LevelError(
                f"the split {split!r} of dataset={config.dataset!r} has no icon of "
                f"{config.min_shapes} to "
                f'{config.max_shapes} shapes; use another split, or split_by="all"'
            )
        at = self._published(range(len(icons)))
        for icon in (icons[at:] + icons[:at])[
            :_MOST_TRIES
        ]:  # the next one that leaves something to see
            self.icon: Icon = icon
            target = self._draw(icon.svg)
            if target.pixels is not None and target.marks and not (target.pixels == 255).all():
                break
        else:
            raise LevelError(
                f"none of {min(len(icons), _MOST_TRIES)} icons tried of the split {split!r} of "
                f"dataset={config.dataset!r} can be drawn; use a larger data set"
            )
        self._target: Pixels = target.pixels
        self._target_elements = elements(target.marks, self.config.size)
        self._written: str | None = None
        self._scores: Mapping[str, float] = {}
        self._score = self._best = 0.0
        self._without_effect: tuple[str, ...] = ()

    def _icons(self, split: Split) -> tuple[Icon, ...]:
        c = self.config
        return icons_of(
            c.dataset, c.max_target_length, c.split_by, split, c.min_shapes, c.max_shapes
        )

    def _level_count(self, split: Split) -> int:
        return len(self._icons(split))

    def _content(self) -> str:
        return content_hash(content_of(self.icon.svg))

    @property
    def _drawn(self) -> Pixels | None:
        """What the last SVG looks like, uint8 (size, size, 3); `None` while there is none that can
        be drawn.
        """
        return None if self._written is None else self._draw(self._written).pixels

    def _state_of(self, written: str | None) -> SvgState:
        drawing = None if written is None else self._draw(written)
        if drawing is None or drawing.pixels is None:
            return SvgState(self._target_elements)
        painted = elements(drawing.marks, self.config.size)
        return SvgState(self._target_elements, painted, content_hash(drawing.pixels.tobytes()))

    def _extract(self) -> SvgState:
        return self._state_of(self._written)

    def _picture(self) -> Picture:
        size = self.config.size
        pixels = np.full(self._shape, _GREY, np.uint8)
        pixels[:, :size] = self._target
        if self.config.show_drawing and (drawn := self._drawn) is not None:
            pixels[:, size + GAP :] = drawn
        return Picture(pixels)

    def _execute(self, action: Action) -> Executed:
        before = self._drawn
        drawing = self._draw(action.text)
        self._written = action.text
        summary = f"an SVG of {len(action.text)} characters"
        if drawing.pixels is None:
            self._scores = dict.fromkeys(self._scores, 0.0)
            self._score = 0.0
            return Executed(summary, before is not None, (), f"It scores 0: {drawing.problem}.")
        self._scores = self._scorer.score([self._target], [drawing.pixels])[0]
        self._score = next(iter(self._scores.values()))
        self._best = max(self._best, self._score)
        weights = {"dino": self.config.dino_reward}
        other = self.config.similarity_reward
        rewards = [
            RewardTerm(name, weights.get(name, other) * score)
            for name, score in self._scores.items()
        ]
        self._without_effect = drawing.without_effect
        feedback = _not_drawn(drawing.without_effect)
        if self.config.show_drawing:
            feedback = f"Its similarity to the target is {self._score:.3f} of 1.{feedback}"
        effective = before is None or not np.array_equal(before, drawing.pixels)
        return Executed(summary, effective, tuple(rewards), feedback)

    def _solved(self) -> bool:
        return self._turns >= self.config.max_turns - 1 and self._score >= self._enough

    def _metrics(self) -> dict[str, bool | float | str]:
        return {
            "score": self._score,
            "best_score": self._best,
            **self._scores,
            "svg_length": float(len(self._written or "")),
            "svg_without_effect": float(len(self._without_effect)),
            "scorer": self._scorer.version,
        }

    def _snapshot(self) -> Any:
        """The last SVG and its scores, so that a restore has nothing to score."""
        return [self._written, dict(self._scores), self._score, self._best]

    def _restore(self, world: Any) -> None:
        """A target that is loaded already is kept; another one is drawn."""
        written, scores, score, best = world
        if not isinstance(written, str | None):
            raise ValueError("an SVG is no text")
        if not all(map(Number(0.0, 1.0).admits, [*scores.values(), score, best])):
            raise ValueError("a score is no number from 0 to 1")
        self._load_again()
        self._written = written
        self._scores = scores
        self._score = score
        self._best = best

    def options_missing(self) -> Sequence[tuple[str, str, str]]:
        found = {name: missing(name, self.config.scorer_weights) for name in SCORERS}
        return [(f"scorer={name}", *lacking) for name, lacking in found.items() if lacking]

    def plan(self) -> Sequence[str]:
        """The target's own SVG."""
        return [self.icon.svg]

    def imagine(self, actions: Sequence[str]) -> SvgState:
        return self._state_of(actions[-1] if actions else self._written)

    def _reason(self, actions: Sequence[str]) -> str:
        return "I draw each element of the target with its shape, colour and place."

    def traced_reply(self) -> str:
        """The reply of an agent that traces the target's pixels, and knows nothing of its SVG.

        Raises:
            MissingExtraError: vtracer isn't installed.
        """
        svg = trace(self._target)
        words = "I trace the outlines of the target's colours."
        return self.grammar.render([svg], observation=words, reasoning=words, prediction=words)

    baselines: ClassVar[Mapping[str, Callable[[Any], str]]] = {"tracer": traced_reply}


def _not_drawn(names: tuple[str, ...]) -> str:
    """One line of a turn's feedback; empty where everything is drawn."""
    if not names:
        return ""
    more = len(names) - MOST_NAMED
    listed = ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f" Not drawn as in a browser: {listed}."
