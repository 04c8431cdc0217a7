"""List sentences whose form often needs a second reading, in documentation, docstrings and
messages.

    python scripts/list_unclear_wording.py [--lines]

Prints the number of marks per file, or each line with a mark.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATHS = ("README.md", "docs", "vagen_envs", "vagen_rewards", "adapters", "benchmarks", "examples")
MARKS = re.compile(
    # sentences without a subject of their own
    r'(?:^|["#(.] ?|\. )(?:Who|What is|Whom|Of which|That which|Whose)\b'
    r"|\b[Ww]ho (?:has|reads|is|never|knows|goes|writes)\b"
    r"|\b[Ww]hat (?:is|was) (?:said|told|there|left|asked|met)\b"
    r"|\bis said\b|\bsaid\b|\bmend(?:ed|s)?\b|\bstrangers?\b|\bfor each in\b|\bsays so\b"
)


def prose(text: str, name: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page, or of a module's strings and comments."""
    if name.endswith(".md"):
        yield from enumerate(text.splitlines(), 1)
        return
    parts = (tokenize.COMMENT, tokenize.STRING)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in parts:
            yield from enumerate(token.string.splitlines(), token.start[0])


def main() -> None:
    files = subprocess.run(
        ["git", "ls-files", *PATHS], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    counts = {}
    for name in files.splitlines():
        if name.endswith((".md", ".py")):
            text = (ROOT / name).read_text(encoding="utf-8")
            found = [
                (number, line.strip()) for number, line in prose(text, name) if MARKS.search(line)
            ]
            counts[name] = len(found)
            if "--lines" in sys.argv:
                print(
                    *(f"{name}:{number}: {line}" for number, line in found),
                    sep="\n",
                    end="\n" if found else "",
                )
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        if count and "--lines" not in sys.argv:
            print(f"{count:4} {name}")
    print(f"{sum(counts.values())} lines with marks")


if __name__ == "__main__":
    main()
