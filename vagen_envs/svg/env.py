"""`vagen/SVGReconstruction-v0`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from vagen_envs.bounds import Number
from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.pictures import Picture, Pixels
from vagen_envs.replies import Action, ActionGrammar
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.svg.answer import SvgText, trace
from vagen_envs.svg.config import SvgConfig
from vagen_envs.svg.dataset import Icon, content_of, icons_of
from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.scorers import SAME_PICTURE, SCORERS, make_scorer, missing
from vagen_envs.svg.scorers.base import Scorer
from vagen_envs.svg.scorers.service import RemoteScorer
from vagen_envs.svg.state import SvgState, elements

GAP = 8
"""Pixels between target and drawing."""


MOST_NAMED = 8
"""Names that a turn's feedback lists of what isn't drawn as in a browser."""

_GREY = 128  # between the two
_MOST_TRIES = 1_000


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
        width = 2 * config.size + GAP if config.show_drawing else config.size
        return config.size, width, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        config = self.config
        icons = self._icons(split)
        if not icons:
            raise LevelError(
                f"the split {split!r} of dataset={config.dataset!r} has no icon of "
                f"{config.min_shapes} to {config.max_shapes} shapes; use another split, or "
                'split_by="all"'
            )
        at = self._published(range(len(icons)))
        in_order = icons[at:] + icons[:at]
        for icon in in_order[:_MOST_TRIES]:  # the next one that leaves something to see
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
        self._score = 0.0
        self._best = 0.0
        self._without_effect: tuple[str, ...] = ()

    def _icons(self, split: Split) -> tuple[Icon, ...]:
        config = self.config
        return icons_of(
            config.dataset,
            config.max_target_length,
            config.split_by,
            split,
            config.min_shapes,
            config.max_shapes,
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
