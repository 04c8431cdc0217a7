"""`vagen models` and `vagen models try`: which profile fits a model. Two turns are asked for, and
read under each.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium as gym
import typer

from vagen_benchmarks.agents.base import Game, Reply
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.models import Model, Profile
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.commands import options
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.commands.printing import err, make_table, out
from vagen_benchmarks.commands.running import key_named, print_withheld_keys
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.results.advice import advise
from vagen_benchmarks.runs.tasks import resolve_id
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn, VagenEnv

SHOWN = 200
"""Characters of a reply that are shown."""

models = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode="markdown",
    help="List known models, or try one. Example: `vagen models`",
)


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    own: options.Models = None,
) -> None:
    """List the models that `vagen bench --agent` knows, and whether their keys are set. Example:
    `vagen models`.
    """
    if context.invoked_subcommand is not None:
        return
    table = make_table(
        ["name", "id", "tokens", "temperature", "profile", "$/M in, cached, out", "key"]
    )
    for name, model in Registry(own).models.items():
        sampling = model.sampling()
        provider = model.provider
        key = f"{provider.key} missing" if provider.key_required else "–"
        if os.environ.get(provider.key):
            key = "set"
        heat = "–" if sampling.temperature is None else f"{sampling.temperature:g}"
        tokens = "400"
        if sampling.reasoning_tokens:
            tokens = f"{sampling.max_tokens} + {sampling.reasoning_tokens}"
        table.add_row(
            name,
            f"{provider.name}:{model.id}",
            tokens,
            heat,
            model.profile.name,
            _price(model),
            key,
        )
    out.print(table)


def _price(model: Model) -> str:
    if model.price is None:
        return "unknown" if model.provider.key_required else ""
    cached = "?" if model.price.cached is None else f"{model.price.cached:g}"
    return f"{model.price.input:g}, {cached}, {model.price.output:g} ({model.price.date})"


@models.command("try")
def try_model(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model of the registry, or PROVIDER:MODEL.")
    ],
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    own: options.Models = None,
    env: Annotated[
        str, typer.Option("--env", "-e", help="The environment to play.")
    ] = "frozenlake",
    strategy: Annotated[str, typer.Option(help="The reasoning strategy.")] = "free_think",
    option: OptionPairs = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 120.0,
) -> None:
    """Ask a model for two turns as the paper does, and say which profile fits what it writes.

    Where the paper's doesn't, the one that fits best is asked for two turns, too. Exit code 1 if
    none fits.

    Example: `vagen models try openai:my-model --base-url http://localhost:8000/v1`
    """
    registry = Registry(own)
    model = registry.find(name, base_url)
    agent = ChatAgent(
        model, base_url=base_url, timeout=timeout, attempts=2, patience=0.0, key_from=key_from
    )
    print_withheld_keys([agent])
    profiles = list(registry.profiles.values())
    try:
        tried = _fit(
            agent, profiles, resolve_id(env), {"strategy": strategy, **parse_options(option)}
        )
    except EndpointError as error:
        (advice,) = advise({(Stop(error.kind).value, str(error)): 1}, key_named([agent]))
        raise EndpointError(error.kind, f"{error}; {advice.fix}") from error
    for each in tried:
        out.print(f"\nprofile {each.profile.name}:", style="bold")
        for reply, turn in each.played:
            out.print(f"  {_seen(reply)}", markup=False, highlight=False)
            problem = turn.parsed.problems[0].message if turn.parsed.problems else ""
            paid = "paid" if turn.parsed.format_correct else f"not paid: {problem}"
            done = f"  → {len(turn.executed)} action(s) executed, the format is {paid}"
            out.print(done, markup=False, highlight=False)
    best = tried[-1]
    if best.fits:
        out.print(f"\nThe profile that fits {name} is {best.profile.name}:", style="green", end=" ")
        words = ["vagen", "bench", "-a", name, "--profile", best.profile.name]
        # Without it a key would go to the provider.
        words += ["--base-url", base_url] if base_url else []
        words += ["--key-from", key_from] if key_from else []
        words += ["--models", str(own)] if own else []
        words += [word for pair in option or [] for word in ("-o", pair)]
        out.print(shlex.join(words), soft_wrap=True, markup=False)
        raise typer.Exit(0)
    err.print(f"\nNo profile fits what {name} writes.", style="red", end=" ")
    err.print(_why_none(tried[0]), soft_wrap=True)
    raise typer.Exit(1)


TURNS = 2
"""The second shows whether a model copies the form of its own first reply."""


@dataclass(frozen=True)
class _Tried:
    """A profile, and the replies and turns that it was asked for."""

    profile: Profile
    played: Sequence[tuple[Reply, Turn]]

    @property
    def fits(self) -> bool:
        return all(turn.parsed.format_correct for _, turn in self.played)


def _fit(
    agent: ChatAgent, profiles: Sequence[Profile], env_id: str, options: Mapping[str, Any]
) -> list[_Tried]:
    """Ask with the first profile, and with those that would have fitted what came, until one does.

    Raises:
        EndpointError: there is no reply to be had.
    """
    envs: list[Any] = [
        gym.make(
            env_id, disable_env_checker=True, **{"max_turns": TURNS, **profile.options, **options}
        ).unwrapped
        for profile in profiles
    ]
    first, *others = zip(profiles, envs, strict=True)
    try:
        tried = [_ask(agent, *first)]
        others.sort(key=lambda other: -_score(other[0], other[1], tried[0]))
        for other in others if not tried[0].fits else ():
            tried.append(_ask(agent, *other))
            if tried[-1].fits:
                break
    finally:
        for env in envs:
            env.close()
    return tried


def _ask(agent: ChatAgent, profile: Profile, env: VagenEnv) -> _Tried:
    """Play two turns, more than one episode if the first turn ends one."""
    agent.profile = profile
    played: list[tuple[Reply, Turn]] = []
    game: Game | None = None
    while len(played) < TURNS:
        if game is None:
            env.reset(seed=len(played))
            game = Game(env, env.id, "train", len(played), 0, env.observed, [])
        reply = agent.reply(game)
        _, _, terminated, truncated, info = env.step(reply.text)
        game.turns.append(info["turn"])
        game.now = info["turn"].result
        played.append((reply, info["turn"]))
        game = None if terminated or truncated else game
    return _Tried(profile, played)


def _score(profile: Profile, env: VagenEnv, tried: _Tried) -> float:
    """How many of these replies it would have paid; reasoning in a field of its own is for one that
    reads it.
    """
    replies = [reply for reply, _ in tried.played]
    paid = sum(env.grammar.parse(reply.text).format_correct for reply in replies)
    shows = any(reply.call is not None and reply.call.reasoning for reply in replies)
    return paid + (0.5 if profile.hidden == shows else 0.0)


def _seen(reply: Reply) -> str:
    call = reply.call
    assert call is not None
    hidden = ""
    if call.reasoning:
        hidden = f" (and {len(call.reasoning)} characters of reasoning in a field of its own)"
    cut = ", cut at the limit of tokens" if call.ending == "cut" else ""
    return f"{reply.text[:SHOWN]!r}{'…' if len(reply.text) > SHOWN else ''}{hidden}{cut}"


def _why_none(tried: _Tried) -> str:
    replies = [reply for reply, _ in tried.played]
    calls = [reply.call for reply in replies if reply.call is not None]
    if all(call.reasoning for call in calls) and not any(reply.text for reply in replies):
        return (
            "The server returns all text as reasoning: start it with the model's own reasoning "
            "parser, or with none."
        )
    if any(call.ending == "cut" for call in calls):
        return "The replies reach the token limit: raise --max-tokens or --reasoning-tokens."
    return "It may need a larger --max-tokens, or another way to serve it."
