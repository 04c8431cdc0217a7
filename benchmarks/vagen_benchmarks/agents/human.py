"""A person plays in the terminal."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from PIL import Image
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture

HELP = (
    "Write actions such as [bold]{actions}[/], or a whole reply that begins with [bold]<[/]. "
    "[bold]s[/] shows the system prompt, [bold]h[/] this help, "
)
ALONE = (
    HELP + "[bold]q[/] gives this episode up. Ctrl-C stops the run; `vagen resume` continues it."
)
HELPED = (
    HELP
    + "[bold]?[/] the oracle's reply; [bold]![/] lets the oracle play this turn, [bold]q[/] stops."
)
WORDS = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "(a person)")


class Human(Agent):
    """A person, whose episodes are stored as a model's are.

    Args:
        name: in results after `human:`.
        console: where the person is asked.
        helped: whether the oracle helps; not in a run.
    """

    def __init__(self, name: str, console: Console | None = None, *, helped: bool = False) -> None:
        self.name = f"human:{name}"
        self._console = console or Console()
        self._helped = helped

    def reply(self, game: Game) -> Reply:
        if game.turns:
            self.tell(game.turns[-1])
        else:
            self._console.rule(f"{game.env.id} · {game.split} {game.seed}")
            self._help(game.env)
        self.show(game)
        try:
            reply = self._read(game.env)
        except EOFError as error:
            raise Stopped("there is no more input") from error
        if reply is None:
            raise EndpointError(Stop.GIVEN_UP, "the player left", retry=False)
        return Reply(reply)

    def _help(self, env: VagenEnv) -> None:
        actions = escape(env.grammar.actions.summary())
        self._console.print((HELPED if self._helped else ALONE).format(actions=actions))

    def show(self, game: Game) -> None:
        """Print the observation: the picture in half blocks where there are colours, else the board
        as text.
        """
        console = self._console
        env = game.env
        if game.now.picture is not None and console.color_system:
            # A character is half as wide as it is high; ten lines are left for words.
            console.print(
                half_blocks(
                    game.now.picture, max(24, min(console.width, 2 * (console.height - 10), 96))
                )
            )
        else:
            env.render_mode = env.render_mode or "ansi"  # it was made without, as for a model
            console.print(env.render(), markup=False, highlight=False)
        # From the limit on, the text says how a model must write; a person has the help above.
        how = env.prompts.pack.fill(
            "shared/limit.txt",
            {"max_actions": str(env.grammar.max_actions), "separator": env.grammar.separator},
        )
        text = game.now.text.split(how)[0].replace("<image>\n", "")
        console.print(text.strip(), style="dim", markup=False, highlight=False)

    def _read(self, env: VagenEnv) -> str | None:
        """The next reply: what was typed, dressed as a well-formed reply unless it is one already.
        `None` to leave.

        Input that can't be read as actions is reported, and the prompt is repeated.
        """
        console = self._console
        while True:
            line = console.input("> ", markup=False).strip()
            if line == "q":
                return None
            if line in ("?", "!") and self._helped:
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
                self._help(env)
            elif line.startswith("<") and not line.startswith("<svg"):
                return line
            elif line:
                reply = env.grammar.render([line], **WORDS)
                problems = env.grammar.parse(reply).problems
                if not problems:
                    return reply
                for problem in problems:  # a slip of the fingers costs no turn
                    console.print(problem.message, style="yellow", markup=False, highlight=False)

    def tell(self, turn: Turn) -> None:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for each in turn.executed:
            effect = "[green]done[/]" if each.effective else "[yellow]no effect[/]"
            table.add_row(escape(each.text), effect, escape(each.feedback))
        for problem in turn.parsed.problems:
            table.add_row(problem.code, "[red]problem[/]", escape(problem.message))
        for term in turn.rewards:
            table.add_row(term.name, f"{term.value:+.2f}")
        table.add_row("turn", f"[bold]{turn.reward:+.2f}[/]")
        self._console.print(table)


def play(env: gym.Env[dict[str, Any], str], seed: int | None, console: Console) -> None:
    """Play one episode by what is read from standard input. Ends with it, at `q` or at the end of
    the input.
    """
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    level = env.reset(seed=seed)[1]["level"]
    person = Human("me", console, helped=True)
    game = Game(inner, inner.id, level["split"], level["seed"], 0, inner.observed)
    over = False
    while not over:
        try:
            reply = person.reply(game)
        except (EndpointError, Stopped):
            return
        _, _, terminated, truncated, info = env.step(reply.text)
        game.turns.append(info["turn"])
        game.now = info["turn"].result
        over = terminated or truncated
    last = game.turns[-1]
    person.tell(last)
    person.show(game)
    end = "[bold green]Solved[/]" if last.success else "[bold red]Not solved[/]"
    console.print(f"{end}, return {sum(turn.reward for turn in game.turns):.2f}.")


def half_blocks(picture: Picture, columns: int) -> Text:
    """A picture, at most so many characters wide: upper half blocks in the colours of two pixels
    each.
    """
    image = Image.fromarray(picture.pixels)
    # Reduce by whole steps, so that all tiles of a board stay alike.
    image = image.reduce(-(-image.width // columns))
    pixels: Any = image.load()
    text = Text()
    for row in range(0, image.height - 1, 2):
        for column in range(image.width):
            upper, lower = (
                "#{:02x}{:02x}{:02x}".format(*pixels[column, row + i]) for i in range(2)
            )
            text.append("▀", f"{upper} on {lower}")
        text.append("\n")
    return text
