"""Multi-turn PPO in one file: a small vision-language model learns FrozenLake from its pixels, on one core of a CPU.

In the order of `main`:

1. A model of a million parameters, the agent `tiny` that comes with the package. It tells tiles apart and speaks, from
   a quarter of an hour of imitation that isn't counted here, but steps into holes as often as chance.
2. Eyes: its vision tower learns that the picture token of a thing tells what is beside it and the way to what matters.
3. Imitation of one who goes the right way with a chance of 0.55, and each other way with 0.15: the format, and some
   skill. From here on the tower stays as it is, so that each picture is looked at once and what was seen is kept.
4. PPO: play many episodes, a few tokens a turn; ask a critic what each moment was worth; turn rewards into advantages;
   make what went better than expected likelier, in small steps; and again.

Each turn is read on its own, without those before it: a lake's picture says all. `--help` says what can be changed.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot, pad

from vagen_adapters.ppo import tiny
from vagen_adapters.ppo.advantages import turn_gae
from vagen_adapters.ppo.losses import explained_variance
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.sight import teach_sight
from vagen_adapters.ppo.trajectories import Trajectories
from vagen_benchmarks.agents.tiny import FOLDER

ENV, MOVES, TURNS = "vagen/FrozenLake-v0", ("Up", "Down", "Left", "Right"), 6
OPTIONS = {
    "prompt_pack": "terse", "strategy": "no_think", "max_turns": TURNS, "max_actions_per_turn": 1,
    "min_solution_length": 2, "max_solution_length": 5,
}  # fmt: skip
LONGEST = 5  # tokens of a reply: `<answer>`, a move, `</answer>`, the end, and one more for what goes wrong
GAMMA, LAMBDA, CLIP, KL, REWARD_SCALE = 0.95, 0.9, 0.2, 0.05, 0.1


class Policy:
    """A vision-language model that replies to one prompt: some text, one picture, some text, always of one length."""

    def __init__(self, model: Any, codec: Any, shown: Any) -> None:
        self.model, self.codec, self.end = model, codec, codec.tokenizer.eos_token_id
        self.prompt = torch.tensor([shown.first_ids])
        whole = pad(self.prompt, (0, LONGEST), value=self.end)
        is_picture = (whole == codec.image_token_id).int()
        self.places = model.model.get_rope_index(whole, is_picture, image_grid_thw=shown.grids)[0]  # (3, 1, L)

    @torch.no_grad()
    def look(self, shown: Sequence[Any]) -> Tensor:
        """(B, 2, tokens, width) What the language model is given of B pictures, at its entrance and a layer later."""
        pixels, grids = (torch.cat([getattr(each, name) for each in shown]) for name in ("pixel_values", "grids"))
        seen = self.model.get_image_features(pixel_values=pixels, image_grid_thw=grids)
        return torch.stack([torch.stack(list(seen.pooler_output)), torch.stack(list(seen.deepstack_features[0]))], 1)

    def read(
        self, ids: Tensor, first: int, seen: Tensor | None, memory: Any = None, keep: int = 1
    ) -> tuple[Tensor, Any]:
        """(B, keep, V) What is likely after the last `keep` of the tokens `ids`, which begin at place `first`."""
        features = None
        if seen is not None:
            features = SimpleNamespace(pooler_output=list(seen[:, 0]), deepstack_features=[list(seen[:, 1])])
        out = self.model(
            input_ids=ids, position_ids=self.places[:, :, first : first + ids.shape[1]].expand(-1, len(ids), -1),
            mm_encoder_outputs={"image": features}, past_key_values=memory, use_cache=keep == 1, logits_to_keep=keep,
        )  # fmt: skip
        forbidden = torch.tensor(self.codec.forbidden_ids)  # a reply that held a picture's token couldn't be read
        return out.logits.index_fill(2, forbidden, -1e9).log_softmax(2), out.past_key_values

    def likely(self, seen: Tensor, replies: Tensor) -> Tensor:
        """(B, n, V) What is likely at each place of replies (B, n)."""
        ids = torch.cat([self.prompt.expand(len(seen), -1), replies[:, :-1]], 1)
        return self.read(ids, 0, seen, keep=replies.shape[1])[0]

    def logprobs(self, seen: Tensor, replies: Tensor) -> Tensor:
        """(B, n) of each token of replies."""
        return self.likely(seen, replies).gather(2, replies[..., None]).squeeze(2)

    @torch.no_grad()
    def reply(self, seen: Tensor, greedy: bool, dice: torch.Generator) -> tuple[Tensor, Tensor]:
        """(B, LONGEST) tokens with their log-probabilities. What follows an end token is never read."""
        ids, first, memory, given, said, logprobs = self.prompt.expand(len(seen), -1), 0, None, seen, [], []
        for _ in range(LONGEST):
            likely, memory = self.read(ids, first, given, memory)
            first, given = first + ids.shape[1], None
            ids = likely[:, -1].argmax(1, True) if greedy else likely[:, -1].exp().multinomial(1, generator=dice)
            said.append(ids)
            logprobs.append(likely[:, -1].gather(1, ids))
        return torch.cat(said, 1), torch.cat(logprobs, 1)


def noisy_play(codec: Any, first_seed: int) -> Iterator[tuple[Any, Any, int]]:
    """What is shown, what is true, and how a shortest safe way begins, while half of the moves are random."""
    env: Any = gym.make(ENV, **OPTIONS).unwrapped
    dice = random.Random(first_seed)  # noqa: S311 - no secret
    for seed in itertools.count(first_seed):
        observation, _ = env.reset(seed=seed, options={"split": "train"})
        terminated = truncated = False
        while not (terminated or truncated):
            right = env.plan()[0]
            yield codec.show(env.system_prompt, observation), env.imagine(()), MOVES.index(right)
            move = right if dice.random() < 0.5 else dice.choice(MOVES)
            observation, _, terminated, truncated, _ = env.step(env.grammar.render([move]))


def imitate(policy: Policy, play: Iterator[tuple[Any, Any, int]], updates: int, right_share: float = 0.4) -> None:
    """Learn to say the right move with `right_share`, and with the rest any of the four, it too: soft labels."""
    texts = [gym.make(ENV, **OPTIONS).unwrapped.grammar.render([move]) for move in MOVES]
    replies = torch.tensor([[*policy.codec.tokenizer(text)["input_ids"], policy.end] for text in texts])
    optimizer = torch.optim.AdamW(policy.model.model.language_model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, updates + 1, pct_start=0.05, cycle_momentum=False)
    for _ in range(updates):
        shown, _, right = zip(*itertools.islice(play, 64), strict=True)
        shares = right_share * one_hot(torch.tensor(right), len(MOVES)) + (1 - right_share) / len(MOVES)
        likely = policy.likely(policy.look(shown), replies[shares.multinomial(1).squeeze(1)])
        wanted = torch.einsum("bm,mnv->bnv", shares, one_hot(replies, likely.shape[2]).float())
        descend(optimizer, cross_entropy(likely.flatten(0, 1), wanted.flatten(0, 1)))
        schedule.step()


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()


@dataclass
class Rollout:
    """N turns of many episodes as they were played: what was seen, said and earned, and when."""

    seen: Tensor  # (N, 2, tokens, width)
    replies: Tensor  # (N, LONGEST)
    logprobs: Tensor  # (N, LONGEST), when they were sampled
    rewards: Tensor  # (N,), scaled
    episode: Tensor  # (N,)
    turn: Tensor  # (N,)
    terminated: Tensor  # (N,) bool: solved or lost by this turn
    truncated: Tensor  # (N,) bool: this was the last turn
    success: float  # of episodes


def play(
    policy: Policy, envs: Sequence[Any], seeds: Sequence[int], split: str, draw: int, greedy: bool = False
) -> Rollout:
    """Play a level in each environment, all at the same time."""
    dice, shown, turns, solved = torch.Generator().manual_seed(draw), {}, [], 0
    for number, (env, seed) in enumerate(zip(envs, seeds, strict=True)):
        observation, _ = env.reset(seed=seed, options={"split": split})
        shown[number] = policy.codec.show(env.unwrapped.system_prompt, observation)
    for turn in range(TURNS):
        if not shown:
            break
        seen = policy.look(list(shown.values()))
        replies, logprobs = policy.reply(seen, greedy, dice)
        for row, number in enumerate(list(shown)):
            said = replies[row].tolist()
            text = policy.codec.read(said[: said.index(policy.end)] if policy.end in said else said)
            observation, reward, terminated, truncated, info = envs[number].step(text)
            earned = REWARD_SCALE * float(reward)
            turns.append((seen[row], replies[row], logprobs[row], earned, number, turn, terminated, truncated))
            solved += info["turn"].success
            del shown[number]
            if not (terminated or truncated):
                shown[number] = policy.codec.show(envs[number].unwrapped.system_prompt, observation)
    columns = list(zip(*turns, strict=True))
    return Rollout(*map(torch.stack, columns[:3]), *map(torch.tensor, columns[3:]), solved / len(seeds))


class Critic(nn.Module):
    """What a moment is worth, read off the picture's tokens in their places and the number of the turn.

    The part to improve first: in this short run it explains nothing of new returns, and rewards alone teach the policy.
    """

    def __init__(self, seen: Tensor) -> None:
        super().__init__()
        _, layers, tokens, width = seen.shape
        self.token = nn.Linear(layers * width, 8)
        self.whole = nn.Sequential(
            nn.Linear(8 * tokens + TURNS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, seen: Tensor, turn: Tensor) -> Tensor:
        """(N, 2, tokens, width), (N,) → (N,)."""
        tokens = self.token(seen.transpose(1, 2).flatten(2)).flatten(1)
        return self.whole(torch.cat([tokens, one_hot(turn, TURNS)], 1)).squeeze(1)


def estimate(rollout: Rollout, values: Tensor, end: int) -> Advantages:
    """Turn-level GAE: a reply is one action, and all its tokens share its advantage. A row is a turn of an episode."""
    ended = (rollout.replies == end).long()
    spoken = ended.cumsum(1) - ended == 0  # up to the first end token, which the policy chose too
    rows = torch.arange(len(values))
    return turn_gae(Trajectories(
        turn_ids=torch.where(spoken, rollout.turn[:, None], -1),
        turn_rewards=torch.zeros(len(rows), TURNS).index_put((rows, rollout.turn), rollout.rewards),
        # No bootstrap_values after a cut: the critic is told the turn, so it knows of the last that nothing follows.
        terminated=rollout.terminated, truncated=rollout.truncated, episode_ids=rollout.episode,
        values=pad(values[:, None], (0, LONGEST)),  # only the one before each reply is asked for
    ), gamma=GAMMA, lam=LAMBDA)  # fmt: skip


def ppo_losses(now: Tensor, old: Tensor, start: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate, and an estimate (k3) of how far the policy has gone from where it started.

    Of (N,) sampled tokens: log-probabilities now, when they were sampled and before PPO, and their advantages.
    """
    ratio = (now - old).exp()
    surrogate = -torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    return surrogate, (start - now).exp() - 1 - (start - now)


def improve(policy: Policy, optimizer: Any, rollout: Rollout, found: Advantages, start: Tensor) -> None:
    """One pass over a rollout in four steps."""
    advantages, mask = found.whitened().advantages, found.mask
    for rows in torch.randperm(len(mask)).chunk(4):
        said = mask[rows]
        now = policy.logprobs(rollout.seen[rows], rollout.replies[rows])[said]
        surrogate, gone = ppo_losses(now, rollout.logprobs[rows][said], start[rows][said], advantages[rows][said])
        descend(optimizer, (surrogate + KL * gone).mean())


def teach(critic: Critic, optimizer: Any, memory: Sequence[tuple[Rollout, Tensor]], steps: int) -> None:
    """Squared error on the returns of the last rollouts: on the newest alone the critic would forget the others."""
    seen, turn = (torch.cat([getattr(rollout, name) for rollout, _ in memory]) for name in ("seen", "turn"))
    returns = torch.cat([each for _, each in memory])  # λ-returns: values of critics up to six rollouts old in them
    for _ in range(steps):
        rows = torch.randint(len(seen), (256,))
        descend(optimizer, (critic(seen[rows], turn[rows]) - returns[rows]).square().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    counts = {"pictures": 1500, "eyes": 300, "imitation": 160, "rollouts": 30, "episodes": 96, "levels": 256, "seed": 0}
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar=str(count))
    asked = parser.parse_args()
    for name, count in vars(asked).items():
        if count < (least := {"pictures": 2, "episodes": 1, "levels": 1}.get(name, 0)):
            parser.error(f"argument --{name}: {count} is not valid: it must be at least {least}")
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)

    model, codec = tiny.load(FOLDER / "frozenlake")
    moments = noisy_play(codec, 1_000_000 * (asked.seed + 1))
    policy = Policy(model.float(), codec, next(moments)[0])
    pictures = [(shown, state.things()) for shown, state, _ in itertools.islice(moments, asked.pictures)]
    teach_sight(model, pictures, asked.eyes)
    tell("eyes")
    imitate(policy, moments, asked.imitation)
    tell(f"imitation; {tried(policy, asked.levels)}")

    before, memory = copy.copy(policy), deque(maxlen=6)
    before.model = copy.deepcopy(model)
    critic = Critic(policy.look([next(moments)[0]]))
    actor_steps = torch.optim.AdamW(model.model.language_model.parameters())
    critic_steps = torch.optim.AdamW(critic.parameters(), 1e-3)
    envs = [gym.make(ENV, **OPTIONS) for _ in range(asked.episodes)]
    for number in range(-3, asked.rollouts):  # in the first three only the critic learns
        first = 10_000_000 * (asked.seed + 1) + number * asked.episodes
        rollout = play(policy, envs, range(first, first + asked.episodes), "train", draw=first)
        with torch.no_grad():
            values, start = critic(rollout.seen, rollout.turn), before.logprobs(rollout.seen, rollout.replies)
        found = estimate(rollout, values, policy.end)
        explained = explained_variance(values, found.returns[:, 0])  # flattered: λ-returns hold these very values
        tell(f"rollout {number}: success {rollout.success:.2f}, the critic explains {explained:.2f} of lambda-returns")
        if number >= 0:
            actor_steps.param_groups[0]["lr"] = 6e-4 * min(1, (number + 1) / 2) * (1 - number / asked.rollouts)
            improve(policy, actor_steps, rollout, found, start)
        memory.append((rollout, found.returns[:, 0]))
        teach(critic, critic_steps, memory, 60)
    tell(tried(policy, asked.levels))


def tried(policy: Policy, levels: int) -> str:
    """How well it plays levels that no training has seen."""
    envs = [gym.make(ENV, **OPTIONS) for _ in range(levels)]
    sampled, likeliest = (play(policy, envs, range(levels), "test", 0, greedy).success for greedy in (False, True))
    return f"of {levels} test levels it solves {sampled:.3f}, by its most likely replies {likeliest:.3f}"


def tell(what: str) -> None:
    print(f"{time.process_time():4.0f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
