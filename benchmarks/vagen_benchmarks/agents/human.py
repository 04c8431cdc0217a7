"""A person plays in the terminal."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.agents.terminal import HalfBlocks
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture

ACTIONS = "Write actions such as [bold]{actions}[/], or a whole reply that begins with [bold]<[/]. "
HELP = ACTIONS + (
    "[bold]?[/] shows the oracle's reply, [bold]![/] lets the oracle play this turn, [bold]s[/] shows the system "
    "prompt, [bold]h[/] this help, [bold]q[/] stops."
)
RECORDED = ACTIONS + (
    "[bold]s[/] shows the system prompt, [bold]h[/] this help, [bold]q[/] gives this episode up. "
    "Ctrl-C stops the run; `vagen resume` continues it."
)


def _help(env: VagenEnv, words: str) -> str:
    return words.format(actions=escape(env.grammar.actions.summary()))


class Human(Agent):
    """A person, whose episodes are stored as a model's are. The oracle doesn't help."""

    def __init__(self, name: str) -> None:
        self.name = f"human:{name}"
        self._console = Console()

    def reply(self, game: Game) -> Reply:
        console, env = self._console, game.env
        if game.turns:
            _tell(game.turns[-1], console)
        else:
            console.rule(f"{env.id} · {game.split} {game.seed}")
            console.print(_help(env, RECORDED))
        env.render_mode = env.render_mode or "ansi"  # it was made without, as for a model
        pixels = {} if game.now.picture is None else {"image": game.now.picture.pixels}
        _show({**pixels, "text": game.now.text}, env, console)
        try:
            reply = _read(env, console, helped=False)
        except EOFError as error:
            raise Stopped("there is no more input") from error
        if reply is None:
            raise EndpointError(Stop.GIVEN_UP, "the player left", retry=False)
        return Reply(reply)


def play(env: gym.Env[dict[str, Any], str], seed: int | None, console: Console, *, watch: bool = False) -> float:
    """Play one episode by what is read from standard input, or `watch` the oracle play it, and return its return.

    Needs an environment with `render_mode="ansi"`. Ends with the episode, at `q` or at the end of the input.
    """
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    shown, info = env.reset(seed=seed)
    console.rule(f"{inner.id} · {info['level']['split']} {info['level']['seed']}")
    if not watch:
        console.print(_help(inner, HELP))
    total, over = 0.0, False
    while not over:
        _show(shown, inner, console)
        reply = inner.oracle_reply() if watch else _read(inner, console)
        if reply is None:
            break
        if watch:
            console.print(reply, style="cyan", markup=False, highlight=False)
        shown, reward, terminated, truncated, info = env.step(reply)
        total += float(reward)
        over = terminated or truncated
        _tell(info["turn"], console)
    if over:
        _show(shown, inner, console)
        won = bool(info["turn"].success)
        console.print(f"[bold {'green' if won else 'red'}]{'Solved' if won else 'Not solved'}[/], return {total:.2f}.")
    return total


def _show(shown: dict[str, Any], env: VagenEnv, console: Console) -> None:
    if "image" in shown and console.color_system:
        # A character is half as wide as it is high; ten lines are left for words.
        columns = max(24, min(console.width, 2 * (console.height - 10), 96))
        picture = Picture(shown["image"].copy())
        console.print(HalfBlocks(picture, columns))
    else:
        console.print(env.render(), markup=False, highlight=False)
    # From the limit on, the text says how a model must write; a person has the help above.
    how = env.prompts.pack.fill(
        "shared/limit.txt", {"max_actions": str(env.grammar.max_actions), "separator": env.grammar.separator}
    )
    text = shown["text"].split(how)[0].replace("<image>\n", "")
    console.print(text.strip(), style="dim", markup=False, highlight=False)


def _read(env: VagenEnv, console: Console, *, helped: bool = True) -> str | None:
    """The next reply: what was typed, dressed as a well-formed reply unless it is one already.

    Input that can't be read as actions is reported, and the prompt is repeated.
    """
    while True:
        try:
            line = console.input("> ", markup=False).strip()
        except EOFError:
            if not helped:
                raise
            return None
        if line == "q":
            return None
        if line in ("?", "!") and helped:
            try:
                reply = env.oracle_reply()
            except VagenError as error:
                console.print(f"The oracle sees no way: {error}", style="red", markup=False)
                continue
            console.print(reply, style="cyan", markup=False, highlight=False)
            if line == "!":
                return reply
        elif line == "s":
            console.print(env.system_prompt, markup=False, highlight=False)
        elif line in ("h", "help"):
            console.print(_help(env, HELP if helped else RECORDED))
        elif line.startswith("<") and not line.startswith("<svg"):
            return line
        elif line:
            words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "(a person)")
            reply = env.grammar.render([line], **words)
            problems = env.grammar.parse(reply).problems
            if not problems:
                return reply
            for problem in problems:  # a slip of the fingers costs no turn
                console.print(problem.message, style="yellow", markup=False, highlight=False)


def _tell(turn: Turn, console: Console) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for each in turn.executed:
        effect = "[green]done[/]" if each.effective else "[yellow]no effect[/]"
        table.add_row(escape(each.text), effect, escape(each.feedback))
    for problem in turn.parsed.problems:
        table.add_row(problem.code, "[red]problem[/]", escape(problem.message))
    for term in turn.rewards:
        table.add_row(term.name, f"{term.value:+.2f}")
    table.add_row("turn", f"[bold]{turn.reward:+.2f}[/]")
    console.print(table)
