"""MathVerifyVerifier: short answers that rules can compare (V-Triune, section 3.2, equation 1)."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from typing import Any, ClassVar

from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.answer import boxed
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers.base import Verifier, tag_format
from vagen_rewards.verifiers.math_worker import HAS_LIMITS

SECONDS = 1.0
"""CPU time for one comparison. Of 900 pairs of 30 usual answers the slowest took 0.14 s, half of
them 0.013 s.
"""
MEMORY = 2 << 30
"""Address space of a worker process, in bytes."""
LONGEST = 500
"""Characters of an answer; V-Triune's filter keeps ground truths of at most 20 (appendix A)."""

_START_SECONDS = 120.0
# seconds by the clock beyond the CPU time, on a busy machine; who says nothing then is broken
_PATIENCE = 60.0
_TRIES = 3
_DEEPEST = 8  # brackets within brackets; math-verify's time grows exponentially with them
_TEXT = re.compile(r"\s*\\text\s*\{([^{}\\]*)\}\s*\Z")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[ '’-][^\W\d_]+)*")
# What isn't calculated though it looks so: 2024-01-02 would be 2021, and H2O the same as O2H.
_NAMES = (
    re.compile(
        r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?"
    ),  # dates, times
    re.compile(r"(?:(?:[A-Z][a-z]?|\((?:[A-Z][a-z]?\d*)+\))\d*){2,}"),  # molecules
    re.compile(r"[A-Z]{1,4}[- ]?\d+[A-Za-z\d-]*|0[xX][\dA-Fa-f]+"),  # codes
    re.compile(r"\d+(?:\.\d+){2,}"),  # addresses, versions
)
_CODE = re.compile(r"[a-z]{1,4}\d+[A-Za-z\d]*")  # as it is written: x_1 is a variable, x1 a name
# Years, telephone numbers: such a truth is no difference that is still to be calculated, but an
# answer may be one.
_TRUTHS = re.compile(r"(?=.*\d{3})\d+(?: ?[-\u2013] ?\d+)+|\d+(?:[-\u2013]\d+){2,}")
# How LaTeX sets a name: CO_2, \mathrm{H}_{2}O.
_SET = re.compile(r"\\(?:text|mathrm|rm|ce)\b|[_{}]")
# Numbers that can't be written down: what stands for them is compared as text, and costs no time.
_HUGE = re.compile(r"\^[^,;=]*\^|\^\s*\{?\s*-?\d{4}|\d{4,}[)}\s]*!|!\s*!|\\underbrace")


class MathVerifyVerifier(Verifier):
    r"""For reasoning, counting and OCR: R_acc is 1 if math-verify finds the answer equal to the
    truth, else 0.

    The answer is what stands in the last `\boxed{…}` of the response; without one it is 0. R_format
    is equation 2's; the paper gives this verifier none, so its samples have `format_ratio` 0.

    A truth of words is compared as `\text{…}`: read as a formula, `cat` is c·a·t and equals `tac`.
    So is one that is a date, a time, a molecule, an address or a code, and an answer that is one
    while the truth is a number; and a truth of large whole numbers with dashes between
    (`2020-2021`; `3-2` is 1). An answer with a number that nobody could write out (`9^{9^9}`,
    `99999!`), or with more than eight brackets in each other, is right only if the truth is the
    same text. Comparisons run in worker processes within limits (see `math_worker`); one that goes
    beyond them is wrong (an answer near the limit may be so on a slow machine only). A truth that
    math-verify can't read raises VerifierError: it is the data's mistake, not the model's.

    Args:
        workers: most processes at a time; they are started when needed.
        seconds: of CPU time, for one comparison.
    """

    name = "mathverify"
    modules = ("math_verify",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"det_verifier_normalized", "det_reward_ratio"}
    )
    """Those of detection, which every verifier of the released code takes: rows of mixed data may
    all have them. They change nothing here.
    """

    def __init__(self, workers: int = 2, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._most = workers
        self._begin()
        atexit.register(self.close)

    def _begin(self) -> None:
        self._owner, self._idle = os.getpid(), list[_ComparisonProcess]()
        self._slots = threading.BoundedSemaphore(self._most)

    def verify(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        format_score = tag_format(response)
        truth = sample.reward_model.truth
        gold = boxed(truth) or truth.strip("$ ")
        answer = boxed(response)
        if not answer:
            return VerifierResult(0.0, format_score, None, "there is no \\boxed{…}")
        if len(answer) > LONGEST:
            return VerifierResult(
                0.0,
                format_score,
                answer[:LONGEST],
                f"the answer has more than {LONGEST} characters",
            )
        right = self._compare(gold, answer)
        if isinstance(right, str):
            raise VerifierError(
                f"math-verify can't read the ground truth {gold!r:.80} ({right}); fix it or "
                "leave the sample out"
            )
        return VerifierResult(float(right is True), format_score, answer, _REASONS[right])

    def reference(self, sample: Sample) -> str:
        truth = sample.reward_model.truth
        return f"\\boxed{{{boxed(truth) or truth.strip('$ ')}}}"

    def _compare(self, gold: str, answer: str) -> bool | str | None:
        """Whether they are equal; why the gold answer can't be read; `None` if it took too much."""
        words = _plain(gold)
        written = _plain(answer)
        if _HUGE.search(written) or _depth(written) > _DEEPEST:
            return "".join(written.split()) == "".join(words.split())
        named = _SET.sub("", words)
        called = _SET.sub("", written)
        calls = any(name.fullmatch(each) for each in (named, called) for name in _NAMES)
        if calls or _TRUTHS.fullmatch(named) or _CODE.fullmatch(words) or _CODE.fullmatch(written):
            return " ".join(named.split()).casefold() == " ".join(called.split()).casefold()
        if _WORDS.fullmatch(words):
            gold = f"\\text{{{words}}}"
            answer = f"\\text{{{written.rstrip(' .')}}}"
        request = json.dumps([f"\\boxed{{{gold}}}", f"\\boxed{{{answer}}}"])
        if self._owner != os.getpid():  # a fork: the parent's processes aren't the child's
            self._begin()
        with self._slots:
            for _ in range(_TRIES):
                worker = self._take()
                try:
                    told: bool | str = worker.ask(request, self.seconds + _PATIENCE)
                except _DiedError as died:
                    worker.end()
                    if died.args[0]:
                        self._idle.append(
                            _ComparisonProcess(self.seconds)
                        )  # starts up while nobody waits
                        return None
                    continue  # it was killed by something else: once more
                self._idle.append(worker)
                return told
        raise VerifierError(
            f"the process that compares answers died {_TRIES} times; try "
            f"`{sys.executable} -m vagen_rewards.verifiers.math_worker 3 {MEMORY}`"
        )

    def _take(self) -> _ComparisonProcess:
        try:
            return self._idle.pop()
        except IndexError:
            return _ComparisonProcess(self.seconds)

    def close(self) -> None:
        """End the processes. The next comparison starts a new one."""
        while self._idle and self._owner == os.getpid():
            self._idle.pop().end()


def _depth(text: str) -> int:
    depths = itertools.accumulate((char in "([{") - (char in ")]}") for char in text)
    return max(depths, default=0)


def _plain(text: str) -> str:
    r"""The text without a `\text{…}` around all of it."""
    match = _TEXT.match(text)
    return match[1].strip() if match else text.strip()


_REASONS = {
    True: "equal to the truth",
    False: "not equal to the truth",
    None: "it takes too long to compare",
}


class _DiedError(Exception):
    """The process ended before it answered. Its argument: because the comparison took too much time
    or memory.
    """


class _ComparisonProcess:
    """One process and its two pipes."""

    def __init__(self, seconds: float) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("the verifier 'mathverify'", "verify", "math_verify")
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [
                sys.executable,
                "-m",
                "vagen_rewards.verifiers.math_worker",
                str(seconds),
                str(MEMORY),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            # a buffer's lock, held by a thread when the process forks, would never be free in the
            # child
            bufsize=0,
        )
        self._ready = False

    def ask(self, request: str, patience: float) -> Any:
        """Raises _DiedError if the process ends, or says nothing for `patience` seconds."""
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        if not self._ready:
            self._hear(_START_SECONDS)
            self._ready = True
        try:
            self.process.stdin.write(
                f"{request}\n".encode()
            )  # short of a pipe's 64 KiB, so written at once
        except OSError:
            raise _DiedError(False) from None
        return json.loads(self._hear(patience))

    def _hear(self, patience: float) -> bytes:
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        timer = threading.Timer(patience, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise _DiedError(self._ready and (-self.process.wait() in _BY_LIMIT or not HAS_LIMITS))
        return line

    def end(self) -> None:
        """Kill the process, wait until it is gone, and close the pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


_BY_LIMIT = (
    27,
    6,
    11,
)  # SIGPROF, and SIGABRT and SIGSEGV, with which C code answers when memory or its stack ends
