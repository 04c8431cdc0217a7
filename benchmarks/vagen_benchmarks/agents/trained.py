"""A model that `vagen train` or `vagen warmstart` has trained, by its folder: it is asked as it was
trained.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_adapters.context import ContextPolicy, summary_request
from vagen_adapters.errors import in_short
from vagen_benchmarks.agents.base import Agent, Call, ContextSummary, Game, Reply
from vagen_benchmarks.clients.base import Ending
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.core import Observation
from vagen_envs.extras import need
from vagen_envs.registration import declared

CARD = "training.json"
"""Written by `vagen train` beside all weights: `environments` (`id`, `options`), `max_tokens`,
`context`, and more.
"""

BEST = "best"
"""Where `vagen train` keeps the model that did best in its evaluations, if it made any. That one
plays.
"""

WRITTEN = (
    *("strategy", "representation", "layout", "tags", "separator"),
    *("observation", "action_names", "prompt_pack"),
)
"""Options that say what a prompt shows and how a reply is written."""
PAID = ("split", "format_")
"""How options begin that change no success."""


def is_trained(name: str) -> bool:
    """Whether a name is a folder with a model's weights."""
    path = Path(name)
    return path.is_dir() and any(
        (path / name).is_file() for name in ("config.json", "adapter_config.json")
    )


class Trained(Agent):
    """Plays by the most likely reply. Each environment gets the options that it had in training; a
    run's own win.

    Raises:
        MissingExtraError: torch or transformers is missing.
        ProtocolError: the folder holds no model that can be played.
    """

    def __init__(self, folder: str) -> None:
        need(f"the agent {folder}", "ppo", "torch", "trl", "transformers")
        from vagen_adapters.ppo.chat_encoder import load_policy

        best = Path(folder) / BEST
        self.name = folder
        self._folder = best if is_trained(str(best)) else Path(folder)
        card = self._folder / CARD
        try:
            self.card: dict[str, Any] = (
                json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
            )
            environments = self.card.get("environments", [])
            self.trained_on = [environment["id"] for environment in environments]
            given: dict[str, list[dict[str, Any]]] = {}
            for environment in environments:
                given.setdefault(environment["id"], []).append(environment["options"])
            self._options = {env_id: _shared(options) for env_id, options in given.items()}
            self._thinks: int = self.card.get("max_thinking_tokens", 0)
            model, self._encoder = load_policy(self._folder, thinking=self._thinks > 0)
        # Of files that are cut off or damaged, libraries raise whatever they like.
        except Exception as error:
            raise ProtocolError(
                f"{folder} holds no model that can be played: {in_short(error)}"
            ) from error
        self._model = model.float()
        self._busy = threading.Lock()  # a model generates for one caller at a time

    def describe(self) -> dict[str, Any]:
        weights = sorted(self._folder.glob("*.safetensors"))
        digest = hashlib.sha256(
            b"".join(hashlib.sha256(file.read_bytes()).digest() for file in weights)
        )
        return {
            "name": self.name,
            "weights_sha256": digest.hexdigest(),
            "options_by_env": self._options,
            "trained_on": list(dict.fromkeys(self.trained_on)),
        }

    def options_for(self, env_id: str) -> Mapping[str, Any]:
        return self._options.get(env_id, {})

    def remarks(
        self, env_id: str, options: Mapping[str, Any], config: Mapping[str, Any]
    ) -> list[str]:
        """Where the prompts and the reply format differ from those of its training, and where its
        training's options change the test.
        """
        if env_id not in self._options:
            return []
        trained = self._options[env_id]
        create = declared(env_id)[1].config_class.create
        learnt = create(**trained)
        played = create(**{**trained, **options})
        found = []
        for name, asked in config.items():
            now = getattr(played, name)
            before = getattr(learnt, name)
            if name in WRITTEN and now != before:
                found.append(f"{name}={now!r}, but it was trained with {before!r}")
            elif name not in WRITTEN and not name.startswith(PAID) and now != asked:
                found.append(f"{name}={now!r} as in its training, not {asked!r} as in this test")
        return found

    def check(self, env_id: str, config: Mapping[str, Any]) -> None:
        if self.trained_on and env_id not in self.trained_on:
            known = " and ".join(dict.fromkeys(self.trained_on))
            raise ProtocolError(
                f"{self.name} was trained on {known}, not on {env_id}; let it play that (--env), "
                f"or take it as transformers:{self.name}"
            )

    def reply(self, game: Game) -> Reply:
        context = ContextPolicy.parse(self.card.get("context", "all"))
        most = self.card.get("max_tokens", 256)
        with self._busy:
            if context.summarises_before(len(game.turns)):
                request = self._encoder.show("", {"text": summary_request(context)})
                text, call = self._most_likely(game, context, request, context.summary_tokens)
                game.summaries.append(ContextSummary(len(game.turns), text, call))
            shown = self._show(game, context, game.now)
            text, call = self._most_likely(game, context, shown, most)
            return Reply(text, call if self._thinks else None)

    def _most_likely(
        self, game: Game, context: ContextPolicy, last_shown: Any, limit: int
    ) -> tuple[str, Call]:
        """The most likely reply to the conversation so far, laid out as in training."""
        from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
        from vagen_adapters.ppo.thoughts import sample_replies, shown_thoughts
        from vagen_adapters.ppo.token_sequences import lay_out, remembered

        started = time.perf_counter()
        steps = self._episode(game, context, last_shown).steps
        now = len(game.turns)
        is_there = any(summary.before == now for summary in game.summaries)
        for_summary = context.summarises_before(now) and not is_there
        thoughts = shown_thoughts(context, for_summary=for_summary)
        earlier = remembered(steps, len(steps), context)
        prompt = lay_out(earlier, (), last_shown, thoughts=thoughts).prompt
        sampling = SampleSettings(
            temperature=0.0, top_p=1.0, max_tokens=limit, max_thinking_tokens=self._thinks
        )
        sampler = TransformersSampler(self._model, self._encoder)
        (answer,) = sample_replies(sampler, self._encoder, [prompt], sampling, [0])
        ending: Ending = "stop" if answer.ids[-1] == self._encoder.end_id else "cut"
        thought_ids = answer.ids[: answer.thoughts]
        call = Call(
            ending,
            time.perf_counter() - started,
            1,
            prompt_tokens=len(prompt.ids),
            completion_tokens=len(answer.ids),
            reasoning=self._encoder.read_thoughts(thought_ids) or None,
            reasoning_tokens=len(thought_ids) or None,
            hidden=list(thought_ids) or None,
        )
        return self._encoder.read(answer.answer), call

    def _episode(self, game: Game, context: ContextPolicy, last_shown: Any) -> Any:
        """The game as the trainer would have played it."""
        from vagen_adapters.ppo import episodes
        from vagen_adapters.ppo.thoughts import brief_reply

        episode = episodes.PPOEpisode(episodes.LevelSeed(game.seed))
        for number, turn in enumerate(game.turns):
            shown = self._show(game, context, turn.observed, number)
            call = game.calls[number] if number < len(game.calls) else None
            reply = self._written(turn.reply, call.hidden if call else None)
            brief = None
            if context.answers:
                brief = brief_reply(self._encoder, turn, game.env.config.tags[-1])
            episode.turns.append(episodes.PlayedTurn(shown, reply, turn, (), brief=brief))
        # Only where summaries stand counts: what they say is in the observations after them.
        for summary in game.summaries:
            reply = self._written(summary.text, summary.call.hidden)
            episode.summaries[summary.before] = episodes.PlayedSummary(last_shown, reply)
        return episode

    def _written(self, text: str, thought_ids: Sequence[int] | None) -> Any:
        """A reply as tokens, after the thoughts before it."""
        from vagen_adapters.ppo.generation import SampledReply

        thoughts = tuple(thought_ids or ())
        words = self._encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = (*thoughts, *words, self._encoder.end_id)
        return SampledReply(ids, (0.0,) * len(ids), thoughts=len(thoughts))

    def _show(
        self,
        game: Game,
        context: ContextPolicy,
        observation: Observation,
        number: int | None = None,
    ) -> Any:
        """The observation of a turn, by default the present one, as a prompt shows it."""
        summaries = {summary.before: summary.text for summary in game.summaries}
        now = len(game.turns) if number is None else number
        seen = context.in_prompt(observation, now, earlier=number is not None, summaries=summaries)
        picture = {} if seen.picture is None else {"image": seen.picture.pixels}
        return self._encoder.show(game.env.system_prompt, {"text": seen.text, **picture})


def _shared(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The options that all tasks of an environment have alike."""
    shared = dict(options[0]) if options else {}
    for other in options:
        shared = {name: value for name, value in shared.items() if (name, value) in other.items()}
    return shared
