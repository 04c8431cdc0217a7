"""The start of a proof: a tiny model imitates noisy play, and its critic learns what play came to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vagen_benchmarks.agents import tiny as tiny_agent
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.proofs import measuring
from vagen_benchmarks.proofs.entries import check_agent
from vagen_benchmarks.proofs.proof import Start

FIRST_DEMONSTRATION = 1_000_000
"""The first seed of demonstrations, so that training levels are new to the model."""
FIRST_RETURN = 2_000_000
"""The first seed of the play that the critic learns from."""
FIRST_BRIEF = 3_000_000
"""The first seed of the play without words, where there was some with words before."""

Tell = Callable[[str], None]


def imitate_play(env_id: str, out: Path, start: Start, options: Mapping[str, Any], tell: Tell) -> None:
    """Make a tiny model and teach it the format and some skill, by imitation."""
    from vagen_adapters.ppo import imitation, sight

    with_words = {**options, "strategy": "grounding_world_modeling"} if start.sight_episodes else options
    model, codec = _untaught(env_id, out, start, with_words)
    tell(f"{sum(each.numel() for each in model.parameters()):,} parameters")

    def progress(meter: Meter) -> Callable[[int, float], None]:
        def told(update: int, loss: float) -> None:
            if update % 50 == 0:
                tell(f"update {update}: loss {loss:.3f}")
            meter.advance(note=f"loss {loss:.3f}")

        return told

    first, size, rate = FIRST_DEMONSTRATION, 16, start.learning_rate
    if start.sight_episodes:
        played = _played(env_id, out, start, with_words, first, start.sight_episodes, start.sight_oracle_share)
        updates = start.sight_episodes // size
        with Meter("updates of imitation with words", updates) as meter:
            imitation.imitate(
                model, codec, played, updates, batch_size=size, learning_rate=rate, report=progress(meter)
            )
        first, size, rate = FIRST_BRIEF, 32, rate / 2
    played = _played(
        env_id, out, start, options, first, start.episodes, start.oracle_share, word_noise=start.word_noise
    )
    if start.tower_updates or start.passes > 1:
        with Meter("episodes played", start.episodes) as meter:
            kept = list(meter.over(played))
        played = itertools.chain.from_iterable(itertools.repeat(kept, start.passes))
        if start.tower_updates:
            tell(f"the vision tower learns from {sum(len(each.turns) for each in kept)} pictures")
            seen = [(turn.shown, turn.turn.before.things()) for each in kept for turn in each.turns]
            taught, held_out = seen[: -max(1, len(seen) // 10)], seen[-max(1, len(seen) // 10) :]
            with Meter("updates of the vision tower", start.tower_updates) as meter:
                reader = sight.teach_sight(model, taught, start.tower_updates, report=progress(meter))
            for line in measuring.sight_lines(reader.measure(model, held_out)):
                tell(line)
    updates = max(1, start.episodes * start.passes // size)
    with Meter("updates of imitation", updates) as meter:
        imitation.imitate(model, codec, played, updates, batch_size=size, learning_rate=rate, report=progress(meter))
    model.save_pretrained(out)
    _teach_critic(env_id, out, out, codec, start, options, tell)


def teach_told(env_id: str, imitated: Path, out: Path, start: Start, options: Mapping[str, Any], tell: Tell) -> None:
    """The policy in `imitated` once more, with a critic that is told states, taught by what the one that reads was."""
    from vagen_adapters.ppo.codec import Codec

    codec = Codec.from_pretrained(str(imitated))
    codec.save_pretrained(out)
    _teach_critic(env_id, imitated, out, codec, start, options, tell, told=True)


def _played(
    env_id: str, out: Path, start: Start, options: Mapping[str, Any], first: int, count: int, oracle_share: float,
    **how: Any,
) -> Iterator[Any]:  # fmt: skip
    """Noisy play of the levels from `first` on, for the model in `out`."""
    from vagen_adapters.ppo.episodes import Level
    from vagen_adapters.ppo.imitation import demonstrations

    levels = [Level(first + number) for number in range(count)]
    how |= {"oracle_share": oracle_share, "aim_noise": start.aim_noise, "processes": start.processes}
    return demonstrations(env_id, options, out, levels, **how)


def _untaught(env_id: str, out: Path, start: Start, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model that imitation begins with, and its codec, both in the folder `out` too."""
    from vagen_adapters.ppo import tiny

    if not start.agent:
        size = {"vocabulary": start.vocabulary, "layers": start.layers, "hidden": start.hidden}
        tiny.save_tiny(out, tiny.texts_of([env_id], levels=200, **options), seed=start.seed, **size)
        return tiny.load(out)
    check_agent(start.agent)
    model, codec = tiny.load(tiny_agent.FOLDER / start.agent)
    model.float().save_pretrained(out)  # it is kept in half precision
    codec.save_pretrained(out)
    return model, codec


def _teach_critic(
    env_id: str, imitated: Path, out: Path, codec: Any, start: Start, options: Mapping[str, Any], tell: Tell, *,
    told: bool = False,
) -> None:  # fmt: skip
    """Teach the critic what play comes to that succeeds about as often as the imitated policy."""
    import torch

    from vagen_adapters.ppo.actor_critic import ActorCritic
    from vagen_adapters.ppo.critic_teaching import teach_critic

    def progress(update: int, explained: float) -> None:
        meter.advance()
        explains.append(explained)
        if len(explains) == 50:
            tell(f"critic, update {update}: explains {sum(explains) / len(explains):.2f} of play it has not seen")
            explains.clear()

    explains: list[float] = []
    kind: Any = "shared" if start.critic_reads else "own"
    with torch.random.fork_rng(devices=[]):  # the heads, which the policy's folder doesn't have, are drawn
        torch.manual_seed(start.seed)
        both = ActorCritic.from_pretrained(
            str(imitated), critic=kind, reads=start.critic_reads and not told, told=told,
            convolutions=start.critic_convolutions,
        )  # fmt: skip
    episodes = _played(
        env_id, imitated, start, options, FIRST_RETURN, start.critic_episodes, start.critic_oracle_share,
        forks=start.critic_forks, word_noise=start.word_noise,
    )  # fmt: skip
    updates = start.critic_updates if start.critic_reads else start.critic_episodes // 16
    if start.critic_reads:
        episodes = _metered(episodes, "episodes read for the critic", start.critic_episodes)
    with Meter("updates of the critic", updates) as meter:
        teach_critic(
            both, codec, episodes, updates, reward_scale=start.reward_scale,
            learning_rate=start.critic_learning_rate, report=progress,
        )  # fmt: skip
    both.save_pretrained(out)


def _metered(episodes: Iterator[Any], what: str, count: int) -> Iterator[Any]:
    with Meter(what, count) as meter:
        yield from meter.over(episodes)
