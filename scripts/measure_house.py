"""Measure how readable the installed packages are, and fail where a function is too complex.

    python scripts/measure_house.py [--complexity]

Prints a table for the four packages together: complex functions, tokens per line, dense statements,
comments, long files and functions, regular expressions in data files, and the amount of code.
`--complexity` lists functions of complexity D or worse (radon), and ends with 1 if there are any.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from radon.complexity import cc_visit

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("vagen_envs", "vagen_rewards", "adapters/vagen_adapters", "benchmarks/vagen_benchmarks")
COMPLEX = 21
"""McCabe's number from which radon gives a D."""
LONGEST_FILE = 300
LONGEST_FUNCTION = 40
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
REGEX = re.compile(r"\\[bBdDsSwW](?![a-z])|\(\?[:=!<]|\[[^\]]+\][*+?{]|\)[*+?]|\.[*+]")
"""What only a regular expression has: classes, groups that look around, repetitions."""

WORD = re.compile(r"\w+|[^\w\s]")


class File:
    """A Python file of the product: its text, syntax tree, docstrings and tokens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.tokens = list(tokenize.generate_tokens(io.StringIO(self.text).readline))
        self.docstrings = list(_docstrings(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def code(self) -> list[tokenize.TokenInfo]:
        """Tokens of code: neither comments nor docstrings nor layout."""
        said = {line for node in self.docstrings for line in _lines_of(node)}
        return [
            token
            for token in self.tokens
            if token.type not in NOT_CODE and token.start[0] not in said
        ]

    @property
    def code_lines(self) -> int:
        """Lines with a token of code."""
        return len({token.start[0] for token in self.code})

    @property
    def comment_lines(self) -> int:
        """Lines of comments and of the docstrings of constants and attributes."""
        comments = {token.start[0] for token in self.tokens if token.type == tokenize.COMMENT}
        of_constants = {line for node in _constant_docs(self.tree) for line in _lines_of(node)}
        return len(comments | of_constants)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                yield node


def main() -> int:
    files = [File(path) for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    if sys.argv[1:] == ["--complexity"]:
        found = sorted(complex_functions(files))
        print("\n".join(found))
        return int(bool(found))
    for name, value in measures(files):
        print(f"{name:62} {value:>10}")
    return 0


def measures(files: list[File]) -> Iterator[tuple[str, str]]:
    """The table: what is measured, and its value."""
    functions = sum(1 for file in files for _ in file.functions())
    complex_ones = len(complex_functions(files))
    tokens = sum(len(file.code) for file in files)
    code_lines = sum(file.code_lines for file in files)
    comprehensions = [node for file in files for node in _comprehensions(file.tree)]
    nested = sum(map(_holds_another, comprehensions))
    flat = sum(len(node.generators) > 1 for node in comprehensions)
    pairs = sum(_tuple_assignments(file.tree) for file in files)
    comments = sum(file.comment_lines for file in files)
    yield "functions of complexity D or worse", f"{complex_ones}"
    yield "  of 100 functions", f"{100 * complex_ones / functions:.1f}"
    yield "tokens per line of code", f"{tokens / code_lines:.1f}"
    yield (
        "comprehensions around others per 1,000 lines of code",
        f"{1000 * nested / code_lines:.1f}",
    )
    yield (
        "comprehensions with several `for`s per 1,000 lines of code",
        f"{1000 * flat / code_lines:.1f}",
    )
    yield "tuple assignments per 1,000 lines of code", f"{1000 * pairs / code_lines:.1f}"
    yield (
        "comments and docstrings of constants per 100 lines of code",
        f"{100 * comments / code_lines:.1f}",
    )
    longest = [file for file in files if file.lines > LONGEST_FILE]
    yield f"files over {LONGEST_FILE} lines", f"{len(longest)}"
    long = [
        node for file in files for node in file.functions() if _statements(node) > LONGEST_FUNCTION
    ]
    yield f"functions over {LONGEST_FUNCTION} statements", f"{len(long)}"
    strings = list(_strings_of_data())
    yield "regular expressions in TOML", f"{sum(map(_is_regex, strings))}"
    yield "lines of code", f"{code_lines:,}"
    yield "Python tokens of the product", f"{tokens:,}"
    words = sum(len(WORD.findall(text)) for text in _data_texts())
    yield "words and signs of its TOML", f"{words:,}"


def complex_functions(files: Iterable[File]) -> list[str]:
    """`path:line name complexity` of every function of complexity D or worse."""
    return [
        f"{file.path.relative_to(ROOT)}:{block.lineno} {block.name} {block.complexity}"
        for file in files
        for block in _blocks(cc_visit(file.text))
        if block.complexity >= COMPLEX
    ]


def _blocks(found: Iterable[Any]) -> Iterator[Any]:
    """Functions and methods, each once; radon lists methods beside their classes."""
    for block in found:
        if block.letter in ("F", "M"):
            yield block


def _docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Strings that stand alone: docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr):
            continue
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def _constant_docs(tree: ast.AST) -> Iterator[ast.Expr]:
    """Strings that stand below an assignment."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, after in itertools.pairwise(body):
            if isinstance(before, ast.Assign | ast.AnnAssign) and after in _docstrings(after):
                yield after


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _comprehensions(tree: ast.AST) -> Iterator[Comprehension]:
    for node in ast.walk(tree):
        if isinstance(node, Comprehension):
            yield node


def _holds_another(node: Comprehension) -> bool:
    """Whether another comprehension stands in it."""
    return any(inner is not node for inner in _comprehensions(node))


def _tuple_assignments(tree: ast.AST) -> int:
    """`a, b = x, y`: several values at once, written out on both sides."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            count += any(isinstance(target, ast.Tuple) for target in node.targets)
    return count


def _statements(function: ast.AST) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


def _data_texts() -> Iterator[str]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.toml")):
            yield path.read_text(encoding="utf-8")


def _strings_of_data() -> Iterator[str]:
    """All keys and strings of the product's TOML."""
    waiting: list[Any] = [tomllib.loads(text) for text in _data_texts()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]


def _is_regex(text: str) -> bool:
    return "\n" not in text and REGEX.search(text) is not None


if __name__ == "__main__":
    sys.exit(main())
