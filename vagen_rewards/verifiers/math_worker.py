"""A process that compares answers with math-verify, one after the other: `python -m … SECONDS
BYTES`.

math-verify takes whatever a model writes to a computer algebra system, which may not come back
(`9^{9^{9^9}}`) and can't be interrupted from within, so this process bounds itself: a timer of CPU
time whose default action kills, and a limit of memory. It reads a line of JSON a request, `[gold,
answer]`, from standard input until that ends, and writes a line each: true, false, or a string that
says why the gold answer can't be read.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from typing import Any

HAS_LIMITS = os.name == "posix"
"""On Windows there are none: the parent's clock alone ends what takes too long."""

if HAS_LIMITS:
    import resource
    import signal


def main() -> None:
    """Serve until the input ends."""
    seconds = float(sys.argv[1])
    memory = int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed by others goes to the standard error
    sys.setrecursionlimit(3_000)
    compare = _comparison()
    compare("\\boxed{1/2}", "\\boxed{0.5}")  # builds the parser's tables
    if HAS_LIMITS:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        if HAS_LIMITS:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        told = compare(*json.loads(line))
        if HAS_LIMITS:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(told), file=answers, flush=True)


def _comparison() -> Any:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    logging.disable(
        logging.CRITICAL
    )  # it warns at each call that it has no time limit; it has ours
    extraction = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]

    @functools.lru_cache(maxsize=1_024)
    def parsed(text: str) -> Any:
        return parse(text, extraction_config=extraction, parsing_timeout=None)

    def compare(gold: str, answer: str) -> bool | str:
        try:
            right = parsed(gold)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if not right:
            return "math-verify finds nothing in it"
        try:
            return bool(verify(right, parsed(answer), timeout_seconds=None))
        except Exception:  # of whatever kind: the answer made it fail, so it isn't the gold answer
            return False

    return compare


if __name__ == "__main__":
    main()
