"""A sample: a question about pictures, and how its answer is rewarded (V-Triune, section 3.1 and
figure 9).

Rows are checked here, once: what is wrong is one `SampleError` with the row, the field, its value,
the reason and the fix.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from vagen_envs.bounds import Number
from vagen_envs.errors import SampleError, did_you_mean
from vagen_envs.sample.images import SampleImage

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class RewardModel:
    """How a sample's answer is rewarded.

    Attributes:
        answer: the right answer as people write it; may be empty.
        ground_truth: the right answer as the verifier reads it. V-Triune's released code wraps
            boxes in `<answer>…</answer>`, which `truth` takes off.
        accuracy_ratio, format_ratio: α_acc and α_format of section 3.2, at least 0; 0 turns that
            part off.
        verifier: the verifier's name.
        verifier_parm: its parameters, JSON.
    """

    answer: str
    ground_truth: str
    accuracy_ratio: float
    format_ratio: float
    verifier: str
    verifier_parm: Mapping[str, Any] = field(default_factory=dict)

    @property
    def truth(self) -> str:
        """The ground truth without the tags around it."""
        return self.ground_truth.strip().removeprefix("<answer>").removesuffix("</answer>").strip()


@dataclass(frozen=True, slots=True)
class Sample:
    """A question about pictures, as a row of a data set has it.

    Attributes:
        data_source: where it is from; metrics are kept apart by it (section 3.3).
        images: its pictures, maybe none.
        prompt: chat messages, each `{"role": …, "content": …}`.
        ability: the kind of task, such as `counting`.
        reward_model: the truth, and which verifier holds an answer against it.
        extra_info: JSON. `facts`, a list of sentences, is what is true of the pictures, where that
            is known.
    """

    data_source: str
    images: tuple[SampleImage, ...]
    prompt: tuple[Mapping[str, str], ...]
    ability: str
    reward_model: RewardModel
    extra_info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The question as one text, without placeholders for pictures."""
        text = "\n".join(
            message["content"] for message in self.prompt if message["role"] != "assistant"
        )
        while "<image>" in text:
            text = text.replace("<image>", "")
        return text.strip()

    @property
    def facts(self) -> tuple[str, ...]:
        """True statements about the pictures, one sentence each, without a full stop."""
        return tuple(self.extra_info.get("facts", ()))

    @property
    def picture_key(self) -> bytes:
        """The pictures' content, or the question's where there are none; splits go by it."""
        if not self.images:
            return b"question" + self.question.encode("utf-8", "surrogatepass")
        return b"pictures" + b"".join(
            hashlib.sha256(image.encoded).digest() for image in self.images
        )

    @property
    def content(self) -> bytes:
        """What makes the sample the one it is: pictures, question and truth."""
        content = json.dumps(
            [self.question, self.reward_model.ground_truth, self.reward_model.verifier]
        )
        return self.picture_key + content.encode()

    def to_row(self, images: bool = True) -> dict[str, Any]:
        """The sample as a row, JSON-able but for the bytes of the pictures."""
        pictures = self.images if images else ()
        return {
            **{name: getattr(self, name) for name in FIELDS},
            "images": [{"bytes": image.encoded, "path": None} for image in pictures],
            "prompt": [dict(message) for message in self.prompt],
            "reward_model": dataclasses.asdict(self.reward_model),
        }


FIELDS = tuple(each.name for each in dataclasses.fields(Sample))
REWARD_FIELDS = tuple(each.name for each in dataclasses.fields(RewardModel))


def sample_from_row(row: Any, where: str = "row 0", folder: Path = Path()) -> Sample:
    """Check a row and make it a sample.

    Args:
        row: a mapping with the fields of figure 9. `images` and `extra_info` may be missing; other
            fields are passed over, unless they look like a missing one misspelt. JSON in a string
            does for `verifier_parm` and `extra_info`, since Arrow has no free dictionaries.
        where: names the row in errors.
        folder: where relative paths of pictures begin.

    Raises:
        SampleError: with row, field, value, reason and fix.
    """
    check = _Check(where)
    check.kind(
        "the row", row, Mapping, "a mapping of fields", f"give it the fields {', '.join(FIELDS)}"
    )
    missing = [name for name in FIELDS if name not in row]
    if not difflib.get_close_matches("reward_model", map(str, row), n=1, cutoff=0.8):
        check.fail(
            "reward_model",
            None,
            f"is missing; the row has {', '.join(map(str, row))}",
            'add it, or say what the row\'s columns are, as in columns={"question": "prompt"}',
        )
    for name in row:
        if name not in FIELDS and (
            meant := difflib.get_close_matches(str(name), missing, n=1, cutoff=0.8)
        ):
            check.fail(str(name), row[name], "is an unknown field", f"did you mean {meant[0]!r}?")
    reward = check.reward_model(row.get("reward_model"))
    extra = check.dictionary("extra_info", row.get("extra_info"))
    facts = extra.get("facts", [])
    if not isinstance(facts, list) or not all(isinstance(fact, str) for fact in facts):
        check.fail("extra_info.facts", facts, "is not a list of strings", "write one sentence each")
    images = enumerate(check.sequence("images", row.get("images")))
    return Sample(
        check.text("data_source", row.get("data_source")),
        tuple([SampleImage.read(value, f"{where}: images[{i}]", folder) for i, value in images]),
        check.prompt(row.get("prompt")),
        check.text("ability", row.get("ability")),
        reward,
        extra,
    )


class _Check:
    """Reads fields, and names the row in what it raises."""

    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, name: str, value: Any, reason: str, fix: str) -> NoReturn:
        raise SampleError(f"{self.where}: {name}={value!r:.120} {reason}; {fix}")

    def kind(self, name: str, value: Any, kind: Any, what: str, fix: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, kind):
            self.fail(name, value, f"is not {what}", fix)
        return value

    def text(self, name: str, value: Any) -> str:
        text: str = self.kind(name, value, str, "a string", "write it as text")
        if not text.strip():
            self.fail(name, value, "is empty", "fill it in, or leave the row out")
        return text

    def ratio(self, name: str, value: Any) -> float:
        if not Number(0.0).admits(value):
            self.fail(name, value, "is not a weight", "give a finite number of at least 0")
        # Figure 9 has float32, in which 0.9 is 0.89999998: a number that fits into one is read as
        # the decimal meant.
        short = np.float32(value)
        return float(str(short)) if float(short) == value else float(value)

    def sequence(self, name: str, value: Any) -> list[Any]:
        return list(
            self.kind(name, value, list | tuple | None, "a list", "put it into a list") or ()
        )

    def dictionary(self, name: str, value: Any) -> dict[str, Any]:
        """JSON in a string, or a mapping; `None`s, which Arrow puts where a struct has no value,
        are dropped.
        """
        fix = 'write a dictionary such as {"iou_threshold": 0.5}'
        if isinstance(value, str):
            try:
                value = json.loads(value or "{}")
            except (ValueError, RecursionError):
                self.fail(name, value, "is not JSON", fix)
        given = self.kind(name, value, Mapping | None, "a dictionary", fix) or {}
        return {str(key): item for key, item in given.items() if item is not None}

    def reward_model(self, value: Any) -> RewardModel:
        reward = self.kind(
            "reward_model", value, Mapping, "a mapping", f"give it {', '.join(REWARD_FIELDS)}"
        )
        for name in reward:
            if name not in REWARD_FIELDS:
                hint = did_you_mean(str(name), REWARD_FIELDS)
                self.fail(
                    f"reward_model.{name}",
                    reward[name],
                    "is an unknown field",
                    f"leave it out.{hint}",
                )
        at = {name: (f"reward_model.{name}", reward.get(name)) for name in REWARD_FIELDS}
        return RewardModel(
            self.kind(*at["answer"], str | None, "a string", "write it as text") or "",
            self.text(*at["ground_truth"]),
            self.ratio(*at["accuracy_ratio"]),
            self.ratio(*at["format_ratio"]),
            self.text(*at["verifier"]),
            self.dictionary(*at["verifier_parm"]),
        )

    def prompt(self, value: Any) -> tuple[Mapping[str, str], ...]:
        messages = self.sequence("prompt", value)
        for i, message in enumerate(messages):
            self.kind(
                f"prompt[{i}]",
                message,
                Mapping,
                "a message",
                'write {"role": "user", "content": "…"}',
            )
            if (role := message.get("role")) not in ROLES:
                self.fail(f"prompt[{i}].role", role, "is unknown", f"use one of {', '.join(ROLES)}")
            self.kind(
                f"prompt[{i}].content", message.get("content"), str, "a string", "write it as text"
            )
        if not any(
            message["role"] == "user" and message["content"].strip() for message in messages
        ):
            self.fail(
                "prompt",
                value,
                "has no user message that says anything",
                "add one with the question",
            )
        return tuple(
            {"role": message["role"], "content": message["content"]} for message in messages
        )
