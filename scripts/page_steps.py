"""What a page of the documentation shows, as steps: commands of the shell and blocks of Python.

What can't run everywhere says so where the reader sees it:

    # needs a key        a comment of its own: nothing of the block below it is run
    vagen bench …  # needs a GPU        behind a command: it is not run
    vagen train …  # takes minutes      run with --long
    vagen serve    # on http://127.0.0.1:8765    a server: it runs until the page ends

Blocks marked `py` are shown and not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS = re.compile(r"#\s*(needs [^#]+)$")
MINUTES = re.compile(r"#.*\btakes minutes\b")
SERVER = re.compile(r"#.*\bon http://127\.0\.0\.1:(\d+)")
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
LAST_COMMENTS = re.compile(r"(?:^# .+\n)+\Z", re.MULTILINE)


class PageError(Exception):
    """What a page shows doesn't run."""


@dataclass(frozen=True)
class Step:
    """A command of the shell, or a block of Python.

    Attributes:
        text: what is run.
        python: whether it is Python.
        needs: why it can't be run everywhere; empty if it can.
        long: whether it takes minutes.
        port: of the server that it starts; 0 if it starts none.
    """

    text: str
    python: bool = False
    needs: str = ""
    long: bool = False
    port: int = 0

    @property
    def pip(self) -> bool:
        """Whether it installs packages."""
        return not self.python and self.text.startswith("pip install ")

    @property
    def title(self) -> str:
        """The command without its comment, or the first line of Python."""
        first = self.text.strip().splitlines()[0].partition("  #")[0].strip()
        return f"(Python) {first}" if self.python else first


def steps_of(text: str) -> Iterator[Step]:
    """What a page shows, in its order.

    Raises:
        PageError: a block doesn't say its language.
    """
    for language, block in FENCE.findall(text):
        if language == "python":
            yield Step(block, python=True)
        elif language == "py":
            yield Step(block, python=True, needs="only shown")
        elif language == "sh":
            yield from _commands(block)
        elif not language:
            raise PageError(f"a block without a language:\n{block}")


def _commands(block: str) -> Iterator[Step]:
    """The commands of a block of shell; lines that end with a backslash go on in the next."""
    needs = ""
    for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
        marked = NEEDS.search(line)
        if line.startswith("#"):
            needs = marked[1] if marked else needs
        elif line.strip():
            server = SERVER.search(line)
            yield Step(
                line,
                needs=marked[1] if marked else needs,
                long=MINUTES.search(line) is not None,
                port=int(server[1]) if server else 0,
            )


def printed_by(block: str) -> list[str]:
    """The lines that a block of Python says it prints: comments behind `print(…)` and the comments
    that end the block.
    """
    last = LAST_COMMENTS.search(block)
    return PRINTED.findall(block) + ([line[2:] for line in last[0].splitlines()] if last else [])


def missing_lines(block: str, printed: str) -> list[str]:
    """The lines that a block says it prints and doesn't, in its order."""
    lines = iter(printed.splitlines())
    return [expected for expected in printed_by(block) if expected not in lines]
