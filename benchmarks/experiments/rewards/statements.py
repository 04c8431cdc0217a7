"""Figures of the rule judge and of the default reward on a file of labelled statements.

    python benchmarks/experiments/rewards/statements.py FILE [--only 0,1,2] [--show]

FILE holds `states` (name → `json`) and `statements` (`state`, `part`, `style`, `text`, `label`:
`true`, `false`, `partly` or `vacuous`). The default reward is measured as in a first turn, with
peers of the state's configuration. A prediction is measured as an observation of the state that it
is about, since the file has no state before it.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import vagen_envs  # noqa: F401
from vagen_envs.core import State
from vagen_rewards import RuleJudge
from vagen_rewards.contrast import Contrast, TurnContrast
from vagen_rewards.reader import read
from vagen_rewards.scores import Statement
from vagen_rewards.transitions import Step

OTHER_LANGUAGES = {"german", "chinese", "french", "spanish", "japanese"}


@functools.cache
def contrast_of(env_id: str, options: str) -> Contrast:
    """The contrast of a configuration."""
    return Contrast(env_id, json.loads(options))


def contrast_for(state: Any) -> Contrast:
    """The contrast of the configuration that a state is of."""
    if state.kind == "sokoban":
        return contrast_of("vagen/Sokoban-v0", json.dumps({"num_boxes": len(state.boxes)}))
    if state.kind == "frozen_lake":
        return contrast_of("vagen/FrozenLake-v0", json.dumps({"size": state.size}))
    if state.kind == "primitive_skill":
        names = set(state.positions)
        task = "Drawer" if "drawer" in names else "Place" if "left_target" in names else "Stack"
        return contrast_of(f"vagen/PrimitiveSkill{task if len(names) > 2 else 'Align'}-v0", "{}")
    return contrast_of(
        {"navigation": "vagen/Navigation-v0", "svg": "vagen/SVGReconstruction-v0"}[state.kind], "{}"
    )


def pay_of(statement: Statement) -> float | None:
    """The gain of a statement's claims, as the default reward counts it; `None` if none can be
    checked.
    """
    reading = read(statement.state.kind, statement.text, statement.part)
    facts = [claim.key for claim in reading.claims]
    if all(fact.holds(statement.state) is None for fact in facts):
        return None
    step = Step(statement.state, statement.state)
    contrast = contrast_for(statement.state)
    groups = contrast.groups_at("grounding", step)
    gain = TurnContrast("grounding", step, groups).score(facts)
    return min(0.0, gain) if reading.matters else gain


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--only", default="0,1,2,3", help="statements whose number modulo 4 is one of these"
    )
    parser.add_argument("--show", action="store_true", help="misjudged and unread ones")
    options = parser.parse_args()
    data = json.loads(options.file.read_text())
    states = {name: State.from_json(entry["json"]) for name, entry in data["states"].items()}
    direct, counts = RuleJudge("direct"), Counter[tuple[str, str, str]]()
    for number, row in enumerate(data["statements"]):
        if row["style"] in OTHER_LANGUAGES or str(number % 4) not in options.only.split(","):
            continue
        statement, label = Statement(row["part"], row["text"], states[row["state"]]), row["label"]
        verdict, pay = direct.score(statement), pay_of(statement)
        judged = "unscored" if verdict.value is None else "paid" if verdict.value > 0 else "fined"
        earned = (
            "unscored" if pay is None else "paid" if pay > 0 else "fined" if pay < 0 else "nothing"
        )
        counts["direct", label, judged] += 1
        counts["default reward", label, earned] += 1
        odd = (label == "true") != (judged == "paid") and (judged != "unscored" or label == "true")
        if options.show and (
            odd
            or (label == "true" and earned == "fined")
            or (label == "false" and earned == "paid")
        ):
            print(
                f"{number} {row['environment']} {label} direct={judged} reward={earned} | "
                f"{row['text']!r}"
            )
            print(f"      {verdict.reason[:230]}")
    for judge in ("direct", "default reward"):
        print(judge)
        for label in ("true", "false", "partly", "vacuous"):
            found = {
                name: counts[judge, label, name]
                for name in ("paid", "fined", "nothing", "unscored")
            }
            print(
                f"  {label:8} {sum(found.values()):4}  "
                + "  ".join(f"{name} {n}" for name, n in found.items())
            )
    texts = [
        (Statement(row["part"], f"{row['text']} {i}.", states[row["state"]]))
        for i in range(5)
        for row in data["statements"]
    ]
    judge, start = RuleJudge(), time.process_time()
    for statement in texts:
        judge.score(statement)
    print(
        f"{len(texts) / (time.process_time() - start):.0f} statements/s that were never read, by "
        "one core"
    )


if __name__ == "__main__":
    main()
