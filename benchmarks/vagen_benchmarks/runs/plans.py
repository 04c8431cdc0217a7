"""Protocols as files: which environments and options make the columns of a table, and what is known
to compare with.

A file (TOML; those of this package are in `protocols/`):

    about, split, first_seed    description; `test` and 0 by default
    [options]                   of every environment
    [axis]                      option, values: every column is played once for each value
    [sampling]                  max_tokens, temperature, top_p
    context                     what prompts show of the past, such as "last:2": see
                                `vagen_adapters.context`
    [scoring]                   judge, betas: see `vagen_benchmarks.runs.scoring`
    [[columns]]                 name, group, env, episodes, options, metric ("success" or one of the
                                environment's own, at the last turn), values (those of the axis that
                                it has), differs (in what it isn't the published test); or
                                columns = "NAME", those of another file
    trained                     true: a trained model plays the columns of the environments that
                                it was trained on
    [published]                 rows of figures in the order of the columns, to stand beside the
                                run's; nan for a missing one
    [not_looking]               the same, measured: agents that don't look at pictures
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.protocol import Protocol, Task, differences, task_label
from vagen_benchmarks.runs.tasks import Skipped, make_task, resolve_id
from vagen_envs.errors import ConfigError, VagenError, did_you_mean

HERE = Path(__file__).parent / "protocols"
KEYS = {
    "about",
    "split",
    "first_seed",
    "options",
    "axis",
    "sampling",
    "context",
    "scoring",
    "columns",
    "trained",
    "published",
    "not_looking",
}
COLUMN_KEYS = {"name", "group", "env", "episodes", "options", "metric", "values", "differs"}
TABLE_KEYS = {"axis": {"option", "values"}, "sampling": {"max_tokens", "temperature", "top_p"}}


@dataclass(frozen=True)
class Plan:
    """A protocol file.

    Attributes:
        name: of the file, without its suffix.
        data: what it says.
    """

    name: str
    data: Mapping[str, Any]

    @classmethod
    def of(cls, protocol: Protocol) -> Self | None:
        """The file that a run follows, if any."""
        return cls(str(protocol.plan["name"]), protocol.plan) if protocol.plan else None

    @property
    def context(self) -> ContextPolicy:
        return ContextPolicy.parse(self.data.get("context", "all"))

    @property
    def values(self) -> Sequence[str | None]:
        """The values of the axis; `[None]` without one."""
        return self.data["axis"]["values"] if "axis" in self.data else [None]

    @property
    def differences(self) -> list[tuple[str, str]]:
        """Columns, and in what each isn't the published test."""
        return [
            (" ".join(filter(None, (column.get("group"), column["name"]))), column["differs"])
            for column in self.data["columns"]
            if "differs" in column
        ]

    def cells(
        self,
    ) -> Iterator[tuple[Mapping[str, Any], str | None, str, dict[str, Any], list[str]]]:
        """For each task its column, its value of the axis, its label, its options, and the names of
        the options that its label shows.
        """
        for value in self.values:
            for column in self.data["columns"]:
                if value is not None and value not in column.get("values", self.values):
                    continue
                axis = {self.data["axis"]["option"]: value} if value is not None else {}
                own = column.get("options", {})
                options = {**self.data.get("options", {}), **own, **axis}
                shown = [*own, *axis]
                label = task_label(column["env"], options, shown)
                yield column, value, label, options, shown

    def tasks(self) -> tuple[list[Task], list[Skipped]]:
        """The tasks, and the environments that can't be made here."""
        tasks: dict[str, Task] = {}
        skipped: dict[str, Skipped] = {}
        for column, _, label, options, shown in self.cells():
            env_id = column["env"]
            if env_id in skipped:
                continue
            try:
                tasks.setdefault(label, make_task(env_id, options, *self.levels(column), shown))
            except ConfigError as error:  # the file's mistake, not this machine's lack
                raise ProtocolError(f"protocol {self.name}: {error}") from error
            except (VagenError, ProtocolError, ImportError, OSError) as error:
                skipped[env_id] = Skipped(env_id, str(error))
        return list(tasks.values()), list(skipped.values())

    def levels(self, column: Mapping[str, Any]) -> tuple[str, int, int]:
        """Split, first seed and number of episodes of a column."""
        return self.data.get("split", "test"), self.data.get("first_seed", 0), column["episodes"]

    def altered(self) -> str:
        """In what this differs from the package's file of the same name; empty where it doesn't, or
        there is none. What the file only tells may be corrected from one version to the next.
        """
        if not (HERE / f"{self.name}.toml").is_file():
            return ""
        return "; ".join(differences(_played(load_plan(self.name).data), _played(self.data)))


def load_plan(name_or_path: str) -> Plan:
    """A plan of this package by name, or a file. Raises ProtocolError if there is none or it isn't
    one.
    """
    path = HERE / f"{name_or_path}.toml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = [file.stem for file in HERE.glob("*.toml")]
        raise ProtocolError(
            f"no protocol {name_or_path!r}, nor a file of that "
            f"name.{did_you_mean(name_or_path, known)}"
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if isinstance(data.get("columns"), str):
            data["columns"] = load_plan(data["columns"]).data["columns"]
        _check(data)
        for column in data["columns"]:
            column["env"] = resolve_id(column["env"])
        _clear_missing(data)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"{path} is not a protocol: {error}") from error
    return Plan(path.stem, data)


def _played(data: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol as JSON, without what moves no score."""
    told = ("name", "about", "not_looking")
    played = {name: value for name, value in data.items() if name not in told}
    columns = [dict(column) for column in data["columns"]]
    for column in columns:
        column.pop("differs", None)
    found: dict[str, Any] = json.loads(json.dumps({**played, "columns": columns}))
    return found


def _clear_missing(data: Mapping[str, Any]) -> None:
    """Write missing figures, `nan` in TOML, as None: NaN is no JSON, and unequal to itself."""
    for table in ("published", "not_looking"):
        for name, row in data.get(table, {}).items():
            data[table][name] = [None if math.isnan(each) else each for each in row]


def _check(data: Mapping[str, Any]) -> None:
    """Raise ValueError for what isn't known, KeyError for what is missing."""
    _know(data, KEYS)
    for table, known in TABLE_KEYS.items():
        _know(data.get(table, {}), known, f" of [{table}]")
    ContextPolicy.parse(data.get("context", "all"))
    if "axis" in data and len(data["axis"]) < 2:
        raise ValueError("[axis] needs both option and values")
    if not data["columns"]:
        raise ValueError("it has no columns")
    for column in data["columns"]:
        _know(column, COLUMN_KEYS, " of a column")
        for name in ("name", "env", "episodes"):
            if name not in column:
                raise ValueError(f"a column lacks {name!r}")
    for table in ("published", "not_looking"):
        for name, figures in data.get(table, {}).items():
            if len(figures) > len(data["columns"]):
                raise ValueError(f"the row {name!r} of [{table}] has more figures than columns")


def _know(names: Iterable[str], known: Collection[str], where: str = "") -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"unknown entry {name!r}{where}.{did_you_mean(name, known)}")
