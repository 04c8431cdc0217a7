"""The agent `tiny`: a vision-language model of a million parameters that comes with this package and plays by sight.

Its weights are in `tiny/`, a folder for each environment, with a model card. It reads pictures only: the texts it is
given are those of the prompt pack `terse`, whatever the environment's are.
"""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.core import Observation
from vagen_envs.errors import MissingExtraError

FOLDER = Path(__file__).parents[1] / "proofs" / "tiny"
MAX_TOKENS = 64
"""More than any reply of the oracle has."""


@dataclass(frozen=True)
class _Player:
    model: Any
    codec: Any
    system: str


class Tiny(Agent):
    """Plays the environments it was trained on, by the most likely reply.

    Raises:
        MissingExtraError: torch or transformers is missing.
    """

    name = "tiny"

    def __init__(self) -> None:
        for module in ("torch", "trl", "transformers"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError("the agent tiny", "ppo", module)
        self._players: dict[str, _Player] = {}
        self._lock = threading.Lock()  # a model generates for one caller at a time

    @property
    def trained_on(self) -> dict[str, dict[str, Any]]:
        """The options that each environment must have, by id."""
        cards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*/player.json"))]
        return {card["env"]: card["needs"] for card in cards}

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:
        """Raise ProtocolError for an environment that it hasn't learned."""
        known = self.trained_on
        if env_id not in known:
            names = " ".join(f"--env {each}" for each in known)
            raise ProtocolError(f"the agent tiny has not learned {env_id}; let it play {names}, or leave it out")
        for option, value in known[env_id].items():
            found = config[option]
            if (list(found) if isinstance(found, tuple) else found) != value:
                raise ProtocolError(
                    f"the agent tiny has learned {env_id} with {option}={value!r}, not {found!r}; "
                    f"leave that option out, or the agent"
                )

    def reply(self, game: Game) -> Reply:
        """The most likely reply to the pictures so far."""
        with self._lock:
            player = self._player(game.env.id)
            return Reply(most_likely(player.model, player.codec, player.system, _seen, game, MAX_TOKENS))

    def _player(self, env_id: str) -> _Player:
        if env_id not in self._players:
            from transformers.utils import logging

            from vagen_adapters.ppo import tiny

            logging.disable_progress_bar()  # the bench has its own
            for path in FOLDER.glob("*/player.json"):
                card = json.loads(path.read_text(encoding="utf-8"))
                if card["env"] == env_id:
                    model, codec = tiny.load(path.parent)
                    self._players[env_id] = _Player(model.float(), codec, card["system"])
        return self._players[env_id]


def most_likely(
    model: Any, codec: Any, system: str, see: Callable[[Observation], dict[str, Any]], game: Game, max_tokens: int
) -> str:
    """The most likely reply of a model that our trainer has trained, to a conversation laid out as it does."""
    from vagen_adapters.ppo.episodes import PlayedTurn, lay_out
    from vagen_adapters.ppo.generation import Reply as Sampled
    from vagen_adapters.ppo.generation import Sampling, TransformersSampler

    history = []
    for turn in game.turns:
        ids = (*codec.tokenizer(turn.reply, add_special_tokens=False)["input_ids"], codec.end_id)
        shown = codec.show(system, see(turn.observed))
        history.append(PlayedTurn(shown, Sampled(ids, (0.0,) * len(ids)), turn, ()))
    prompt = lay_out(history, (), codec.show(system, see(game.now))).prompt
    sampler = TransformersSampler(model, codec)
    (answer,) = sampler.sample([prompt], Sampling(temperature=0.0, top_p=1.0, max_tokens=max_tokens), [0])
    text: str = codec.read(answer.ids)
    return text


def _seen(observation: Observation) -> dict[str, Any]:
    assert observation.picture is not None
    return {"text": "<image>", "image": observation.picture.pixels}
