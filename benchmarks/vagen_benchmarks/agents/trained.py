"""A model that `vagen train` or `vagen warmstart` has trained, by its folder: it is asked as it was trained."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.context import ContextPolicy
from vagen_envs.core import Observation
from vagen_envs.errors import MissingExtraError

CARD = "training.json"
"""Written by `vagen train` beside the weights: `environments` (`id` and `options` of each), `max_tokens`, `context`."""

BEST = "best"
"""Where `vagen train` keeps the model that did best in its evaluations, if it made any. That one plays."""


def is_trained(name: str) -> bool:
    """Whether a name is a folder with a model's weights."""
    path = Path(name)
    return path.is_dir() and (path / "config.json").is_file()


class Trained(Agent):
    """Plays by the most likely reply. Environments get the options that they all had in training; a run's own win.

    Raises:
        MissingExtraError: torch or transformers is missing.
        ProtocolError: the folder holds no model that can be played.
    """

    def __init__(self, folder: str) -> None:
        for module in ("torch", "trl", "transformers"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError(f"the agent {folder}", "ppo", module)
        from vagen_adapters.ppo.chat_encoder import load_policy

        best = Path(folder) / BEST
        self.name, self._folder = folder, best if is_trained(str(best)) else Path(folder)
        card = Path(folder) / CARD
        self.card: dict[str, Any] = json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
        self.trained_on = [each["id"] for each in self.card.get("environments", [])]
        first, *others = [each["options"] for each in self.card.get("environments", [])] or [{}]
        self.env_options = {
            name: value for name, value in first.items() if all(other.get(name) == value for other in others)
        }
        try:
            model, self._codec = load_policy(self._folder)
        except (OSError, ValueError) as error:
            raise ProtocolError(f"{folder} holds no model that can be played: {error}") from error
        self._model = model.float()
        self._busy = threading.Lock()  # a model generates for one caller at a time

    def describe(self) -> dict[str, Any]:
        weights = sorted(self._folder.glob("*.safetensors"))
        digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in weights))
        return {"name": self.name, "weights_sha256": digest.hexdigest(), "options": dict(self.env_options)}

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:
        if self.trained_on and env_id not in self.trained_on:
            known = " and ".join(dict.fromkeys(self.trained_on))
            raise ProtocolError(
                f"{self.name} was trained on {known}, not on {env_id}; let it play that (--env), "
                f"or take it as transformers:{self.name}"
            )

    def reply(self, game: Game) -> Reply:
        limit = int(self.card.get("max_tokens", 256))
        with self._busy:
            return Reply(self._most_likely(game, limit))

    def _most_likely(self, game: Game, limit: int) -> str:
        """The most likely reply to the conversation so far, laid out as in training."""
        from vagen_adapters.ppo.episodes import PlayedTurn, lay_out, remembered
        from vagen_adapters.ppo.generation import Reply as Sampled
        from vagen_adapters.ppo.generation import Sampling, TransformersSampler

        system, encoder, history = game.env.system_prompt, self._codec, []
        for turn in game.turns:
            ids = (*encoder.tokenizer(turn.reply, add_special_tokens=False)["input_ids"], encoder.end_id)
            shown = encoder.show(system, _seen(turn.observed))
            history.append(PlayedTurn(shown, Sampled(ids, (0.0,) * len(ids)), turn, ()))
        window = ContextPolicy.parse(self.card.get("context", "all")).turns
        prompt = lay_out(remembered(history, len(history), window), (), encoder.show(system, _seen(game.now))).prompt
        sampler = TransformersSampler(self._model, encoder)
        (answer,) = sampler.sample([prompt], Sampling(temperature=0.0, top_p=1.0, max_tokens=limit), [0])
        text: str = encoder.read(answer.ids)
        return text


def _seen(observation: Observation) -> dict[str, Any]:
    shown: dict[str, Any] = {"text": observation.text}
    if observation.picture is not None:
        shown["image"] = observation.picture.pixels
    return shown
