"""Pictures spoilt in known ways, to judge a scorer by the order it gives.

    python benchmarks/experiments/svg/degradations.py --scorer classical

Each icon is moved, recoloured and robbed of parts, in three strengths each. A scorer is right about
a pair if it gives the picture that is spoilt less the higher score.
"""

from __future__ import annotations

import argparse
import colorsys
import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from vagen_envs.pictures import Pixels
from vagen_envs.seeding import HashStream, Split
from vagen_envs.svg.dataset import Icon, load_dataset
from vagen_envs.svg.renderer import Renderer, shared_renderer
from vagen_envs.svg.scorers import make_scorer
from vagen_envs.svg.scorers.base import Scorer

SIZE = 224
"""Pixels a side of the pictures."""
MOVES = (0.03, 0.1, 0.3)
"""By this share of the picture's width."""
RECOLOURINGS = (25.0, 70.0, 160.0)
"""Each colour's hue is turned by this many degrees; greys stay."""

_BATCH = 16
_COLOUR = re.compile(r"#([0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two pictures of one target, of which the first is the better one by construction.

    Attributes:
        label: such as `moved`, `missing against another icon` or `recoloured against blank`.
        target, better, worse: uint8 of shape (SIZE, SIZE, 3).
    """

    label: str
    target: Pixels
    better: Pixels
    worse: Pixels


def moved(svg: str, share: float, direction: int) -> str:
    """All moved to one of four diagonals, `direction` 0 to 3, by a share of the view box."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    width, height = (
        (float(word) for word in box[1].replace(",", " ").split()[2:]) if box else (100.0, 100.0)
    )
    x, y = width * share * (1 - direction % 2 * 2), height * share * (1 - direction // 2 * 2)
    head, body, tail = _opened(svg)
    return f'{head}<g transform="translate({x:g} {y:g})">{body}</g>{tail}'


def recoloured(svg: str, degrees: float) -> str:
    """Every `#rgb` colour with its hue turned."""

    def turn(match: re.Match[str]) -> str:
        digits = match[1] if len(match[1]) == 6 else "".join(digit * 2 for digit in match[1])
        hue, lightness, saturation = colorsys.rgb_to_hls(
            *(int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
        )
        values = colorsys.hls_to_rgb((hue + degrees / 360) % 1, lightness, saturation)
        return "#" + "".join(f"{round(255 * value):02x}" for value in values)

    return _COLOUR.sub(turn, svg)


def missing(svg: str, count: int) -> str:
    """Without the `count` elements that were painted last."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - an icon of a dataset, checked before it is drawn
    parents = {child: parent for parent in root.iter() for child in parent}
    leaves = [element for element in root.iter() if len(element) == 0 and element is not root]
    for element in leaves[len(leaves) - count :]:
        parents[element].remove(element)
    return ElementTree.tostring(root, encoding="unicode").replace("ns0:", "").replace(":ns0", "")


def pairs(icons: Sequence[Icon], renderer: Renderer) -> Iterator[Pair]:
    """All pairs of these icons. Pairs that look the same are left out."""
    stream = HashStream("degradations", 0)
    blank = np.full((SIZE, SIZE, 3), 255, np.uint8)
    pictures = [renderer.draw(icon.svg, SIZE).pixels for icon in icons]
    for i, icon in enumerate(icons):
        target = pictures[i]
        another = pictures[(i + 1 + stream.below(max(1, len(icons) - 1))) % len(icons)]
        if target is None or another is None:
            continue
        direction = stream.below(4)
        leaves = sum(1 for element in ElementTree.fromstring(icon.svg).iter() if len(element) == 0)  # noqa: S314
        ladders = {
            "moved": [moved(icon.svg, share, direction) for share in MOVES],
            "recoloured": [recoloured(icon.svg, degrees) for degrees in RECOLOURINGS],
            "missing": [
                missing(icon.svg, n) for n in sorted({1, leaves // 2, leaves - 1}) if 0 < n < leaves
            ],
        }
        for label, spoilt in ladders.items():
            steps = [target]
            for svg in spoilt:
                picture = renderer.draw(svg, SIZE).pixels
                if picture is not None and not np.array_equal(picture, steps[-1]):
                    steps.append(picture)
            for better, worse in itertools.pairwise(steps):
                yield Pair(label, target, better, worse)
            if len(steps) > 1:
                yield Pair(f"{label} against another icon", target, steps[1], another)
                yield Pair(f"{label} against blank", target, steps[1], blank)


def judge(scorer: Scorer, of: Sequence[Pair]) -> dict[str, tuple[float, int]]:
    """The share of pairs that the scorer orders right, and how many there were, by label and for
    `all`.
    """
    right: dict[str, list[bool]] = defaultdict(list)
    for start in range(0, len(of), _BATCH):
        some = of[start : start + _BATCH]
        targets = [pair.target for pair in some] * 2
        scores = scorer.score(
            targets, [pair.better for pair in some] + [pair.worse for pair in some]
        )
        values = [next(iter(each.values())) for each in scores]
        for pair, better, worse in zip(some, values, values[len(some) :], strict=False):
            right[pair.label].append(better > worse)
            right["all"].append(better > worse)
    return {label: (sum(each) / len(each), len(each)) for label, each in sorted(right.items())}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/experiments/svg/degradations.py", description=main.__doc__
    )
    parser.add_argument("--scorer", default="auto")
    parser.add_argument("--weights", default="", help="folder of DreamSim's and DINO's weights")
    parser.add_argument("--dataset", default="builtin")
    parser.add_argument("--split", default="test", choices=("train", "val", "test"))
    parser.add_argument(
        "--icons", type=int, default=100, help="how many of the split's icons to take"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(arguments)
    split: Split = asked.split
    icons = load_dataset(asked.dataset, 10_000).splits[split][: asked.icons]
    scorer = make_scorer(asked.scorer, asked.weights)
    shares = judge(scorer, list(pairs(icons, shared_renderer())))
    if asked.json:
        sys.stdout.write(json.dumps({"scorer": scorer.version, "shares": shares}) + "\n")
        return 0
    sys.stdout.write(
        f"{scorer.version}: share of pairs in the right order ({len(icons)} icons, {split})\n"
    )
    for label, (share, count) in shares.items():
        sys.stdout.write(f"  {label:36} {share:7.1%} of {count}\n")
    return 0


def _opened(svg: str) -> tuple[str, str, str]:
    """The opening `<svg …>`, what is inside, and the closing tag."""
    start = svg.index(">", svg.index("<svg")) + 1
    end = svg.rindex("</svg>")
    return svg[:start], svg[start:end], svg[end:]


if __name__ == "__main__":
    sys.exit(main())
