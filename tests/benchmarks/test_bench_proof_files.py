"""What the documents say was learned is what the files of results say, which hold each training by itself."""

import json
from pathlib import Path

import pytest

from vagen_benchmarks.proofs import report
from vagen_benchmarks.proofs.proof import load_proof

DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted((DOCS / "proof").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_row_of_the_document_is_the_mean_of_its_trainings(path):
    kept = json.loads(path.read_text(), parse_constant=pytest.fail)  # NaN isn't JSON
    proof = load_proof(path.stem)
    assert kept["proof"] == proof.name
    trainings = sorted((each["recipe"], each["seed"]) for each in kept["runs"])
    assert trainings == sorted((recipe, seed) for recipe in proof.recipes for seed in proof.seeds), "it isn't whole"
    summary = report.summarise(kept["start"], kept["runs"], proof.baseline)
    assert [row["recipe"] for row in summary["rows"]] == [row["recipe"] for row in kept["rows"]]
    document = (DOCS / ("training.md" if path.stem.startswith("critic-") else "learned.md")).read_text()
    for row in summary["rows"]:
        low, high = row["sampled"]["over_levels"]
        over_levels = "" if path.stem.startswith("critic-") else f" {low:.2f}–{high:.2f} |"
        said = f"| `{row['recipe']}` | {row['sampled']['success']:.3f} |{over_levels}"
        assert said in document, f"{path.name}: the document has no row that begins {said}"
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in report.table(summary).splitlines()]
    for row in rows if proof.baseline else ():
        at = head.index(f"gain on `{proof.baseline}`")
        gain = f"| {row[at]} | {row[at + 1]} |"  # with its p over seeds
        assert gain in document, f"{path.name}: the document doesn't say of {row[1]}: {gain}"
        for i, cell in enumerate(head) if path.stem.startswith("words-") else ():
            if cell.startswith("gain in "):
                gain = f"| {row[i]} | {row[i + 1]} |"
                assert gain in document, f"{path.name}: the document doesn't say of {row[1]}: {gain}"
    for row in rows if path.stem.startswith("critic-") else ():
        at = head.index("critic, of the states' worth")
        known = f"| {' | '.join(row[at : at + 3])} |"
        assert known in document, f"{path.name}: the document doesn't say of {row[1]}'s critic: {known}"
    assert f"| *start* | {kept['start']['sampled']['success']:.3f} |" in document
    assert f"proof/{path.stem}.png" in document


def test_there_are_files():
    assert len(FILES) >= 10
