"""Samples of our own: counting, detection, grounding and arithmetic on pictures that code draws
from a seed.

They stand in for the kinds of task of V-Triune's corpus (section 4.1, appendix A) where its data
can't be had; they are far easier. Boxes are thousandths of the picture's width and height, whole
numbers. Pictures are coloured shapes and strokes on a plain ground, drawn by
`shapes` and `generated.toml` alone: no font.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from vagen_envs.errors import ConfigError, did_you_mean
from vagen_envs.pictures import Picture, Pixels
from vagen_envs.sample.images import SampleImage
from vagen_envs.sample.schema import RewardModel, Sample
from vagen_envs.sample.shapes import COLOURS, GROUNDS, Shape, draw, draw_signs, scatter
from vagen_envs.seeding import HashStream, Split, content_hash, split_of

VERSION = 1
"""Version of the samples: it changes with any scene, question or answer."""
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
_BOXED = "Put the final answer in \\boxed{}."
_BOXES = (
    "Answer with a list [{'bbox_2d': [x1, y1, x2, y2], 'label': '…'}], x and y in thousandths "
    "of the picture's width and height, from its upper left."
)


class _Made(NamedTuple):
    """A question before its picture is drawn, and the JSON-able scene that `draw` makes the picture
    of.
    """

    question: str
    answer: str
    facts: tuple[str, ...]
    draw: Callable[..., Pixels]
    scene: tuple[Any, ...]


def generate(stream: HashStream, split: Split, sources: Sequence[str] = ()) -> Sample:
    """Draw samples until one belongs to the split, and return it.

    Args:
        stream: where the randomness is from.
        split: by the content of picture, question and answer.
        sources: some of `SOURCES`; all if empty.

    Raises:
        ConfigError: there is no such source.
    """
    for source in sources:
        if source not in SOURCES:
            raise ConfigError(f"unknown data source {source!r}.{did_you_mean(source, SOURCES)}")
    while True:
        source = stream.choice(sources or tuple(SOURCES))
        made = SOURCES[source](stream)
        content = json.dumps([VERSION, source, made.question, made.answer, made.scene]).encode()
        if split_of(content) == split:
            return _sample(source, made, content_hash(content))


def generated_samples(
    count: int, split: Split = "train", sources: Sequence[str] = ()
) -> Iterator[Sample]:
    """`count` samples of a split, each a pure function of its number."""
    for seed in range(count):
        yield generate(HashStream("vagen samples", split).child(seed), split, sources)


def _sample(source: str, made: _Made, name: str) -> Sample:
    boxes = source in ("vagen/detection", "vagen/grounding")
    # Weights of accuracy and format, verifier and its parameters.
    rewarded: tuple[Any, ...] = (
        1.0,
        0.0,
        "mathverify",
    )
    if boxes:
        rewarded = (0.9, 0.1, "detection", {"coordinates": "thousandths"})
    return Sample(
        source,
        (SampleImage(Picture(made.draw(*made.scene)).png, source),),
        ({"role": "user", "content": f"<image>\n{made.question} {_BOXES if boxes else _BOXED}"},),
        source.partition("/")[2],
        RewardModel(made.answer, made.answer, *rewarded),
        {"id": name, "facts": list(made.facts)},
    )


def _kinds(stream: HashStream, count: int) -> list[tuple[str, str]]:
    """`count` different pairs of shape and colour."""
    return stream.sample([(kind, colour) for kind in SHAPES for colour in COLOURS], count)


def _scene(stream: HashStream, question: str, answer: str, shapes: Sequence[Shape]) -> _Made:
    ground = stream.choice(GROUNDS)
    facts = tuple([f"the picture has {shape.name} at {shape.box}" for shape in shapes])
    return _Made(question, answer, facts, draw, (shapes, ground))


def _counting(stream: HashStream) -> _Made:
    asked, *others = _kinds(stream, 3)
    number = 1 + stream.below(7)
    names = [asked] * number + [stream.choice(others) for _ in range(1 + stream.below(5))]
    kind, colour = asked
    same_kind = all(other[0] != kind for other in others)
    what = f"{kind}s" if same_kind and stream.below(2) else f"{colour} {kind}s"
    shapes = scatter(stream, names, smallest=22, largest=40)
    question = f"How many {what} are in the picture?".replace("crosss", "crosses")
    return _scene(stream, question, str(number), shapes)


def _detection(stream: HashStream) -> _Made:
    asked, *others = _kinds(stream, 4)
    names = [asked] * (1 + stream.below(4)) + [
        stream.choice(others) for _ in range(2 + stream.below(4))
    ]
    shapes = scatter(stream, names)
    label = f"{asked[1]} {asked[0]}"
    found = [shape for shape in shapes if (shape.kind, shape.colour) == asked]
    question = f"Detect every {label} in the picture. The label is {label!r}."
    return _scene(stream, question, _boxes(found, label), shapes)


def _grounding(stream: HashStream) -> _Made:
    kind = stream.choice(SHAPES)
    colours = stream.sample(tuple(COLOURS), 2)
    others = [pair for pair in _kinds(stream, 4) if pair[0] != kind]
    names = [(kind, stream.choice(colours)) for _ in range(2 + stream.below(2))]
    ways: list[tuple[str, Shape]] = []
    while not ways:
        shapes = scatter(stream, [*names, *others])
        ways = _references(shapes, kind)
    words, found = stream.choice(ways)
    return _scene(stream, f"Find {words}. The label is {kind!r}.", _boxes([found], kind), shapes)


def _references(shapes: Sequence[Shape], kind: str) -> list[tuple[str, Shape]]:
    """Ways to mean one of the shapes of a kind that hold for no other of that kind."""
    own = [shape for shape in shapes if shape.kind == kind]
    measures: dict[str, Callable[[Shape], int]] = {
        "largest": lambda shape: shape.side,
        "smallest": lambda shape: -shape.side,
        "leftmost": lambda shape: -(2 * shape.left + shape.side) // 2,
        "rightmost": lambda shape: (2 * shape.left + shape.side) // 2,
        "topmost": lambda shape: -(2 * shape.top + shape.side) // 2,
        "lowest": lambda shape: (2 * shape.top + shape.side) // 2,
    }
    ways = []
    for word, measure in measures.items():
        second, first = sorted(own, key=measure)[-2:]
        if measure(first) - measure(second) >= 10:  # pixels, so that it is clear which one is meant
            ways.append((f"the {word} {kind}", first))
    counts = Counter(shape.colour for shape in own)
    single = [shape for shape in own if counts[shape.colour] == 1]
    single.sort(key=lambda shape: shape.colour)
    return ways + [(f"the {shape.colour} {kind}", shape) for shape in single]


def _boxes(shapes: Sequence[Shape], label: str) -> str:
    return json.dumps([{"bbox_2d": list(shape.box), "label": label} for shape in shapes])


def _arithmetic(stream: HashStream) -> _Made:
    sign = stream.choice("+−×")
    most = 11 if sign == "×" else 98
    first = 2 + stream.below(most)
    second = 2 + stream.below(most)
    if sign == "−":
        first, second = max(first, second), min(first, second)
    value = {"+": first + second, "−": first - second, "×": first * second}[sign]
    text = f"{first} {sign} {second}"
    colour = stream.choice(tuple(COLOURS))
    ground = stream.choice(GROUNDS)
    top = 40 + stream.below(100)
    return _Made(
        "What is the value of the expression in the picture?",
        str(value),
        (f"the picture shows {text}",),
        draw_signs,
        (text, colour, ground, top),
    )


SOURCES: dict[str, Callable[[HashStream], _Made]] = {
    "vagen/counting": _counting,
    "vagen/detection": _detection,
    "vagen/grounding": _grounding,
    "vagen/arithmetic": _arithmetic,
}
"""The data sources, and what draws from each."""
