"""`vagen/Sample-v0`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from vagen_envs.bounds import Number, Open, Several, Whole, Words
from vagen_envs.config import EnvConfig
from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.errors import ConfigError, NotBoxesError, SimulatorError
from vagen_envs.pictures import Picture
from vagen_envs.replies import Action, ActionGrammar, ParsedTurn, Strategy
from vagen_envs.sample.answer import AnswerText, read_boxes
from vagen_envs.sample.generated import VERSION, generate
from vagen_envs.sample.reading import GAP, SampleSet, load_sample_set
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult, find_scoring
from vagen_envs.sample.shapes import SIDE
from vagen_envs.sample.state import SampleState
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.tables import SplitBy

LONGEST_QUESTION = 12_000
"""Characters; an observation's text has room for no more beside the format."""

_GREY = 128


@dataclass(frozen=True, kw_only=True)
class SampleConfig(EnvConfig):
    """Options of `vagen/Sample-v0`. The reply is V-Triune's: a thought, then the answer."""

    level_fields: ClassVar[tuple[str, ...]] = ("dataset", "sources", "max_side")

    dataset: str = "generated"
    """`generated` (drawn from the seed by this package), or a file or folder in the schema of
    V-Triune's figure 9; see `read_samples`."""
    split_by: SplitBy = "published"
    """Whether files and folders called `train`, `val` or `test` keep these splits, or all samples
    are split by `content`, or stand in every split (`all`).
    """
    columns: Mapping[str, str] = field(default_factory=dict)
    """For a data set in another schema: its columns as parts of a sample, such as
    `{"question": "prompt", "answer": "answer", "image": "images"}`, or `{"conversations":
    "prompt", "image": "images"}` for LLaVA's. Parts are `prompt`, `images`, `answer` (of a list
    of people's answers the most frequent), `data_source`, `ability` and `verifier` (default
    `mathverify`)."""
    sources: Annotated[tuple[str, ...], Open(Several(Words(100), 16, 0))] = ()
    """The data sources that are played; all if empty."""
    max_side: Annotated[int, Whole(1, 4096), Open(Whole(1, 1024))] = 1024
    """Samples of a data set whose pictures, side by side, are larger than this in pixels are left
    out: each observation is as large as the largest."""
    scoring: str = "vagen_rewards.verifiers:SCORING"
    """Where the verifiers are, as `module:attribute`; any `vagen_envs.sample.scoring.Scoring` will
    do.
    """
    iou_threshold: Annotated[float, Open(Number(0.0, 1.0))] = 0.85
    """ε of V-Triune's equation 3, where the sample doesn't say its own; the first of its dynamic
    schedule. Where this isn't given, a training moves it (`iou_schedule`)."""
    strategy: Strategy = "free_think"
    separator: str = "~~"
    max_actions_per_turn: int = 1
    max_turns: int = 1
    format_reward: float = 0.0
    """A sample weighs its format itself (`format_ratio`); this would come on top."""

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        self.require(0 < self.iou_threshold <= 1, "iou_threshold", "above 0 and at most 1")
        self.require(self.max_turns == 1, "max_turns", "1: a sample is one turn")

    def level_key(self) -> dict[str, Any]:
        """Levels depend on what the samples are, not on the path where they lie."""
        if (found := _sample_set(self)) is None:
            return {"dataset": "generated", "version": VERSION, "sources": self.sources}
        return {**EnvConfig.level_key(self), "dataset": found.fingerprint}


def _sample_set(config: SampleConfig) -> SampleSet | None:
    if config.dataset == "generated":
        return None
    return load_sample_set(
        config.dataset,
        config.split_by,
        config.sources,
        config.max_side,
        LONGEST_QUESTION,
        tuple(sorted(config.columns.items())),
    )


class SampleEnv(VagenEnv):
    r"""A question about pictures, answered in one turn; its sample names the verifier (V-Triune,
    section 3).

    Action: `\boxed{…}` or a list of boxes. Reward terms: `accuracy` (α_acc · R_acc) and
    `tag_format` (α_format · R_format), with the sample's own weights. By equation 2 malformed
    replies earn `tag_format` too, unlike the term `format` of the other environments. The episode
    ends with the reply: `terminated`, never `truncated`.

    The option `scoring` names the object that scores replies as `module:attribute`, because this
    package doesn't import `vagen_rewards`, which has the verifiers.

    Metrics of a turn: `accuracy`, `tag_format`, `data_source`, and the verifier's own, such as
    `iou` and `iou@50`, which is 0 like `accuracy` if no answer was read.

    Version history:
        v0: first release.
    """

    id = "vagen/Sample-v0"
    config_class = SampleConfig
    prompt_folder = "sample"
    blind_search = (32, 32)
    field_names = ("question",)
    config: SampleConfig

    def _actions(self) -> ActionGrammar:
        return AnswerText()

    def _picture_shape(self) -> tuple[int, int, int]:
        self._scoring = find_scoring(self.config.scoring)
        self._scoring.prepare()
        self._threshold = self.config.iou_threshold
        if found := _sample_set(self.config):
            return *found.size, 3
        # An unknown source is an error now.
        generate(HashStream("any"), "train", self.config.sources)
        return SIDE, SIDE, 3

    def set_iou_threshold(self, value: float) -> None:
        """Move ε of equation 3; vector environments have it as `envs.call("set_iou_threshold",
        value)`.

        Raises:
            ConfigError: it isn't above 0 and at most 1.
        """
        if not 0 < value <= 1:
            raise ConfigError(
                f"{self.id}: iou_threshold={value!r} is not valid: it must be above 0 and at most 1"
            )
        self._threshold = float(value)

    def _load(self, stream: HashStream, split: Split) -> None:
        self.sample: Sample
        if found := _sample_set(self.config):
            self.sample = self._published(found.splits[split])
        else:
            self.sample = generate(stream, split, self.config.sources)
        self._given: str | None = None
        self._shown: Picture | None = None

    def _level_count(self, split: Split) -> int | None:
        return len(found.splits[split]) if (found := _sample_set(self.config)) else None

    def _snapshot(self) -> Any:
        return [self._threshold, self._given]

    def _restore(self, world: Any) -> None:
        threshold, given = world
        if not isinstance(given, str | None):
            raise ValueError("an answer is no text")
        self.set_iou_threshold(threshold)
        self._load_again()
        self._given = given

    def _content(self) -> str:
        if self.config.dataset == "generated":
            return str(self.sample.extra_info["id"])
        return content_hash(self.sample.content)

    def _fields(self) -> dict[str, str]:
        return {"question": self.sample.question}

    def _state_of(self, given: str | None) -> SampleState:
        return SampleState(
            self.sample.question, self.sample.facts, self.sample.reward_model.truth, given
        )

    def _extract(self) -> SampleState:
        return self._state_of(self._given)

    def _view_text(self) -> str:
        facts = "; ".join(self.sample.facts)
        sizes = ", ".join("{} × {}".format(*image.size) for image in self.sample.images)
        return (
            "Pictures (width × height in pixels): "
            f"{sizes or 'none'}.{f' What they show: {facts}.' if facts else ''}"
        )

    def _picture(self) -> Picture:
        if self._shown is None:
            sheet = np.full(self._shape, _GREY, np.uint8)
            left = 0
            for image in self.sample.images:
                width, height = image.size
                sheet[:height, left : left + width] = image.pixels
                left += width + GAP
            self._shown = Picture(sheet)
        return self._shown

    def _read(self, reply: str) -> tuple[str, ParsedTurn]:
        reply, parsed = super()._read(reply)
        self._verdict: VerifierResult = self._guarded(
            self._scoring.score, self.sample, reply, self._threshold
        )
        return reply, parsed

    @property
    def verdict(self) -> VerifierResult:
        """The last reply's, with zeros where no answer was read from it."""
        if self._given is not None:
            return self._verdict
        zeros = dict.fromkeys(self._verdict.metrics, 0.0)
        return replace(self._verdict, accuracy=0.0, answer=None, metrics=zeros)

    def _execute(self, action: Action) -> Executed:
        self._given = action.text
        verdict = self._verdict
        if verdict.accuracy is None:
            raise SimulatorError(self.id, f"the verifier failed: {verdict.reason}")
        weight = self.sample.reward_model.accuracy_ratio
        terms = (RewardTerm("accuracy", weight * verdict.accuracy),) if weight else ()
        feedback = f"The answer is {'right' if verdict.correct else 'wrong'}: {verdict.reason}."
        return Executed(action.text, True, terms, feedback)

    def _reward_terms(
        self, parsed: ParsedTurn, executed: tuple[Executed, ...]
    ) -> tuple[RewardTerm, ...]:
        terms = super()._reward_terms(parsed, executed)
        weighed = self.sample.reward_model.format_ratio * self._verdict.format
        return (*terms, RewardTerm("tag_format", weighed)) if weighed else terms

    def _solved(self) -> bool:
        return self._given is not None and self._verdict.correct

    def _lost(self) -> bool:
        return not self._solved()  # asked after a reply only: there is no second turn

    def _metrics(self) -> dict[str, bool | float | str]:
        return {
            **self.verdict.metrics,
            "accuracy": self.verdict.accuracy or 0.0,
            "tag_format": self.verdict.format,
            "data_source": self.sample.data_source,
        }

    def plan(self) -> Sequence[str]:
        """The right answer."""
        return [self._scoring.reference(self.sample)]

    def imagine(self, actions: Sequence[str]) -> SampleState:
        return self._state_of(actions[-1] if actions else self._given)

    def _reason(self, actions: Sequence[str]) -> str:
        return "I look at what is asked for and answer that."

    def random_actions(self, stream: HashStream, count: int) -> Sequence[str]:
        """A number from 0 to 20, or one box with the label of the truth, for an agent that plays by
        chance.
        """
        try:
            label = read_boxes(self.sample.reward_model.truth)[0].label
        except (NotBoxesError, IndexError):
            return super().random_actions(stream, count)
        (left, right), (top, bottom) = (
            sorted((stream.below(1000), stream.below(1000))) for _ in range(2)
        )
        return [
            json.dumps([{"bbox_2d": [left, top, right + 1, bottom + 1], "label": label}])
        ] * count
