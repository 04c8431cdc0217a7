"""Prompts as text files. A prompt pack is a folder; a user's folder may override any of its files.

Files use `$name` placeholders (`string.Template`; `$$` is a dollar sign):

    shared/reply.txt                how a reply is written: $limit $strategy $representation $format
    shared/limit.txt                $max_actions $separator
    shared/strategy_<strategy>.txt
    <environment>/system.txt        $reply $example and the environment's own
    <environment>/first.txt         first observation: $view $reply and the environment's own
    <environment>/next.txt          later observations: the same and $feedback
    shared/last.txt                 what is shown when the episode is over: $feedback $view
    <environment>/representation_<representation>.txt
    <environment>/example.toml      the fields of an example reply, a table for each representation
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template

from vagen_envs.errors import PromptPackError, did_you_mean
from vagen_envs.replies import Grammar

PACKS = Path(__file__).parent / "prompt_packs"


class PromptPack:
    """The files of a pack, a user's folder over the default one. Remembers what it read."""

    def __init__(self, name_or_path: str = "default") -> None:
        own = [path.name for path in PACKS.iterdir() if path.is_dir()]
        folder = PACKS / name_or_path if name_or_path in own else Path(name_or_path)
        try:
            is_folder = folder.is_dir()
        except (OSError, ValueError):  # longer than a name may be, or with a zero byte
            is_folder = False
        if not is_folder:
            raise PromptPackError(
                f"prompt pack {name_or_path!r} is neither a pack of this package nor a folder."
                f"{did_you_mean(name_or_path, own)}"
            )
        self.folders = (folder, PACKS / "default")
        self._read: dict[str, str] = {}

    def text(self, file: str) -> str:
        """The text of a file, without the newline at its end. Raises PromptPackError if no folder
        has it.
        """
        if file not in self._read:
            path = next(
                (folder / file for folder in self.folders if (folder / file).is_file()), None
            )
            if path is None:
                raise PromptPackError(f"no {file} in {self.folders[0]}; add that file to the pack")
            try:
                self._read[file] = path.read_text(encoding="utf-8").rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise PromptPackError(
                    f"{path} can't be read as UTF-8 text ({error}); save it as UTF-8"
                ) from error
        return self._read[file]

    def fill(self, file: str, values: Mapping[str, str]) -> str:
        """The file with every placeholder replaced. Raises PromptPackError for one that doesn't
        exist.
        """
        try:
            return Template(self.text(file)).substitute(values)
        except (KeyError, ValueError) as error:
            raise PromptPackError(
                f"{file} has a placeholder that does not exist or is malformed ({error}); "
                f"known: {', '.join('$' + name for name in sorted(values))}"
            ) from error

    def sha256(self) -> str:
        """A fingerprint of all that was read so far, for the record of a run."""
        digest = hashlib.sha256()
        for file in sorted(self._read):
            digest.update(f"{file}\0{self._read[file]}\0".encode())
        return digest.hexdigest()


class Prompts:
    """The system prompt and the observation texts of one configured environment.

    Args:
        pack: where the files are.
        folder: the environment's folder in the pack.
        grammar: writes the format and the example, so they parse.
        representation: natural_language, symbolic or structured.
        constants: the environment's placeholders that don't change within an episode or between
            them.
        fields: names of the placeholders that the environment fills in at each observation.
    """

    def __init__(
        self,
        pack: PromptPack,
        folder: str,
        grammar: Grammar,
        representation: str,
        constants: Mapping[str, str],
        fields: tuple[str, ...] = (),
    ) -> None:
        self.pack = pack
        limit = pack.fill(
            "shared/limit.txt",
            {"max_actions": str(grammar.max_actions), "separator": grammar.separator},
        )
        has_state = grammar.strategy not in ("no_think", "free_think")
        file = f"{folder}/representation_{representation}.txt"
        representation_text = pack.fill(file, constants) if has_state else ""
        reply = pack.fill(
            "shared/reply.txt",
            {
                "limit": limit,
                "strategy": pack.text(f"shared/strategy_{grammar.strategy}.txt"),
                "representation": f"\n{representation_text}" if representation_text else "",
                "format": grammar.template(),
            },
        )
        self.example = self._example(folder, grammar, representation)
        self.system = pack.fill(
            f"{folder}/system.txt", {**constants, "reply": reply, "example": self.example}
        )
        known = {**constants, "reply": reply}
        self._first = self._compile(f"{folder}/first.txt", known, ("view", *fields))
        self._next = self._compile(f"{folder}/next.txt", known, ("view", "feedback", *fields))
        self._last = self._compile("shared/last.txt", {}, ("view", "feedback"))

    def _example(self, folder: str, grammar: Grammar, representation: str) -> str:
        file = f"{folder}/example.toml"
        try:
            example = tomllib.loads(self.pack.text(file))[representation]
            actions = example["actions"]
            words = {k: v for k, v in example.items() if k != "actions"}
            return grammar.render(actions[: grammar.max_actions], **words)
        except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise PromptPackError(
                f"{file} is not a list of examples ({error}); it needs a table "
                f"[{representation}] with observation, reasoning, prediction (strings) and "
                "actions (a list of strings)"
            ) from error

    def _compile(
        self, file: str, constants: Mapping[str, str], fields: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Text, field, text, field, …: the constants are filled in once, since this runs at every
        turn.
        """
        marks = {name: f"\0{name}\0" for name in fields}
        return tuple(self.pack.fill(file, {**constants, **marks}).split("\0"))

    def observe(self, fields: Mapping[str, str], *, over: bool = False) -> str:
        """The text of an observation; with `feedback` among the fields it isn't the first. `over`:
        it is the last.
        """
        parts = self._next if "feedback" in fields else self._first
        if over:
            parts = self._last
        return "".join([fields[part] if i % 2 else part for i, part in enumerate(parts)])
