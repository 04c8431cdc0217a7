"""Figures of the rule judge on a file of labelled statements.

    python benchmarks/experiments/rewards/statements.py FILE [--half 0|1] [--show]

FILE holds `states` (name → `json`) and `statements` (`state`, `part`, `style`, `text`, `label`: `true`, `false`,
`partly` or `vacuous`). A statement is paid or fined by the sum of its claims, without peer states.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from vagen_envs.core import State
from vagen_rewards import RuleJudge
from vagen_rewards.scores import Score, Statement

OTHER_LANGUAGES = {"german", "chinese", "french", "spanish", "japanese"}


def sign_of(statement: Statement) -> int:
    """Whether the claims of a statement are paid (1), fined (-1) or neither (0), for claims of equal weight."""
    reading = RuleJudge().read(statement)
    if isinstance(reading, Score):
        return 0
    held = [claim.holds(statement.state) for claim in reading.claims]
    total = held.count(True) - held.count(False)
    return (total > 0) - (total < 0) if total else -int(False in held)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    data = json.loads(options.file.read_text())
    states = {name: State.from_json(each["json"]) for name, each in data["states"].items()}
    direct, counts = RuleJudge("direct"), Counter[tuple[str, str, str]]()
    for number, row in enumerate(data["statements"]):
        if row["style"] in OTHER_LANGUAGES or (options.half is not None and number % 2 != options.half):
            continue
        statement = Statement(row["part"], row["text"], states[row["state"]])
        verdict = direct.score(statement)
        said = "unscored" if verdict.value is None else "paid" if verdict.value > 0 else "fined"
        claims = ("unscored", "paid", "fined")[sign_of(statement)]
        label = row["label"]
        counts["direct", label, said] += 1
        counts["claims", label, claims] += 1
        wrong = (label == "true") != (said == "paid") and said != "unscored"
        if options.show and (
            wrong
            or (label == "true" and said != "paid")
            or (label == "true" and claims == "fined")
            or (label == "false" and claims == "paid")
        ):
            print(
                f"{number} {row['environment'][:6]} {label} direct={said} claims={claims} | {row['text']!r}\n"
                f"      {verdict.reason[:230]}"
            )
    for judge in ("direct", "claims"):
        print(judge)
        for label in ("true", "false", "partly", "vacuous"):
            row = {said: counts[judge, label, said] for said in ("paid", "fined", "unscored")}
            print(f"  {label:8} {sum(row.values()):4}  " + "  ".join(f"{said} {n}" for said, n in row.items()))


if __name__ == "__main__":
    main()
