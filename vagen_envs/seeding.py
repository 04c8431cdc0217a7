"""Randomness that means the same everywhere, and splits that no seed can leak across.

NumPy and `random` promise stable streams only in part (NumPy's `Generator` methods may change
between releases), so levels draw from a counter over BLAKE2b: the same bytes in every process,
thread, machine and version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableSequence, Sequence
from typing import Literal, TypeVar, get_args

T = TypeVar("T")

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


class HashStream:
    """An endless stream of random numbers, a pure function of its key.

    The key is any JSON value: `HashStream("vagen/Sokoban-v0", {"num_boxes": 1}, "test", 7)`.
    """

    __slots__ = ("_bits", "_counter", "_key", "_left")

    def __init__(self, *key: object) -> None:
        text = json.dumps(key, sort_keys=True, separators=(",", ":"))
        self._key = hashlib.blake2b(text.encode()).digest()
        self._counter = 0
        self._bits = 0
        self._left = 0

    def __eq__(self, other: object) -> bool:
        """Whether the same numbers are to come."""
        return isinstance(other, HashStream) and (
            (self._key, self._counter, self._left) == (other._key, other._counter, other._left)
        )

    __hash__ = None  # type: ignore[assignment]

    def child(self, name: int) -> HashStream:
        """Another stream, a pure function of this one's key and of `name`, however much was drawn
        from this one.
        """
        twin = HashStream()
        twin._key = hashlib.blake2b(b"%d" % name, key=self._key).digest()
        return twin

    def bits(self, n: int) -> int:
        """An integer of `n` random bits, 0 ≤ value < 2**n."""
        while self._left < n:
            block = hashlib.blake2b(self._counter.to_bytes(8, "little"), key=self._key).digest()
            self._counter += 1
            self._bits |= int.from_bytes(block, "little") << self._left
            self._left += 512
        value = self._bits & ((1 << n) - 1)
        self._bits >>= n
        self._left -= n
        return value

    def below(self, n: int) -> int:
        """A uniform integer, 0 ≤ value < n. Raises ValueError if `n` < 1."""
        if n < 1:
            raise ValueError(f"below({n}): the bound must be at least 1")
        width = (n - 1).bit_length()
        while (value := self.bits(width)) >= n:
            pass
        return value

    def random(self) -> float:
        """A uniform float, 0.0 ≤ value < 1.0, with 53 random bits."""
        # A double holds 53 bits: each value is exact, and as likely as any other.
        return self.bits(53) * 2.0**-53

    def uniform(self, low: float, high: float) -> float:
        """A uniform float between `low` and `high`."""
        return low + (high - low) * self.random()

    def choice(self, items: Sequence[T]) -> T:
        """One item, each equally likely. Raises ValueError if there is none."""
        return items[self.below(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put `items` into a random order, in place (Fisher-Yates)."""
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """`k` different items in random order. Raises ValueError if there are fewer."""
        if k > len(items):
            raise ValueError(f"sample of {k} from {len(items)} items: ask for at most {len(items)}")
        pool = list(items)
        for i in range(k):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:k]


def content_hash(content: bytes) -> str:
    """The name of a level: 32 hexadecimal digits of BLAKE2b over its canonical content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


Shares = tuple[int, int]
"""Percent of the levels in train and in val; the others are in test."""
SHARES: Shares = 80, 10


def split_of(content: bytes, shares: Shares = SHARES) -> Split:
    """The split a level belongs to, by its content alone: 80 % train, 10 % val, 10 % test, or by
    other shares.

    `content` must be canonical: equal for levels that are the same up to the symmetries of
    their environment. Then no seed, configuration or version can put one level into two splits.
    """
    bucket = (
        int.from_bytes(
            hashlib.blake2b(content, digest_size=8, person=b"vagen-split").digest(), "little"
        )
        % 100
    )
    return split_at(bucket, shares)


def split_at(bucket: int, shares: Shares) -> Split:
    """The split of the `bucket`-th of 100 levels."""
    if bucket < shares[0]:
        return "train"
    return "val" if bucket < sum(shares) else "test"
