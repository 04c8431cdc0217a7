"""Lights Out with a reader of what agents say about it, for judges and for the reward for
reasoning.

PYTHONPATH=examples/lights_out vagen bench -e lights_out_words:example/LightsOut-v0 -a oracle
--judge rule
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lights_out import LightsOutState

from vagen_rewards.reader import Claim, Reading, register_reader


@dataclass(frozen=True)
class Lit:
    """A lamp is on."""

    lamp: str

    def holds(self, state: LightsOutState) -> bool:
        return self.lamp in state.lit


def claims_of(text: str, _part: str) -> Reading:
    """Every lamp that a text names is claimed to be on."""
    lamps = list(re.finditer(r"\b[A-E][1-5]\b", text))
    return Reading(tuple(Claim(lamp.span(), Lit(lamp[0])) for lamp in lamps))


register_reader("lights_out", claims_of)
