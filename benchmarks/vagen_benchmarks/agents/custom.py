"""Agents and judges from a user's file: `my_agent.py:ReAct`."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Game, Reply
from vagen_benchmarks.agents.identity import FROM_FILE, identity_of
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.errors import did_you_mean
from vagen_rewards import Judge, make_judge


def is_custom(name: str) -> bool:
    """Whether a name means a class or a function in a file."""
    path, _, attribute = name.rpartition(":")
    return bool(attribute) and path.endswith(".py")


def load_custom(name: str) -> Agent:
    """The agent of `FILE.py:NAME`: an `Agent`'s class, any class with a `reply(game)`, or a
    function of a game.

    Raises:
        ProtocolError: there is no such file or name, or it can't be made into an agent.
    """
    made, module = _made("agent", name)
    return custom_agent(made, name, module)


def named_judge(name: str, **llm: Any) -> Judge:
    """The judge of `FILE.py:CLASS`, or one that `make_judge` knows, with `llm` as there.

    Raises:
        ProtocolError: there is no such file or class, it isn't a judge, or no class is named.
        JudgeConfigError: there is no judge of this name, or its endpoint has no key.
    """
    if name.endswith(".py"):
        raise ProtocolError(
            f"judge {name!r} is a file; name the class in it, as in my_judge.py:MyJudge"
        )
    if not is_custom(name):
        return make_judge(name, **llm)
    made, _ = _made("judge", name)
    if not isinstance(made, Judge) or not isinstance(getattr(made, "name", None), str):
        raise ProtocolError(
            f"judge {name!r} is a {type(made).__name__}; derive its class from "
            "vagen_rewards.Judge, with a name"
        )
    return made


def _made(kind: str, name: str) -> tuple[Any, ModuleType]:
    """The object that `FILE.py:NAME` names, an instance if that is a class, and the file as a
    module.
    """
    path, _, attribute = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise ProtocolError(
            f"{kind} {name!r}: there is no file {path}; name it as seen from {Path.cwd()}"
        )
    try:
        module = _module(file)
    except Exception as error:
        raise ProtocolError(
            f"{kind} {name!r}: {file} can't be imported ({type(error).__name__}: {error})"
        ) from error
    found = getattr(module, attribute, None)
    if found is None:
        raise ProtocolError(
            f"{kind} {name!r}: {path} has no {attribute!r}.{did_you_mean(attribute, vars(module))}"
        )
    try:
        return found() if inspect.isclass(found) else found, module
    except Exception as error:
        raise ProtocolError(
            f"{kind} {name!r} can't be made ({type(error).__name__}: {error}); it must need no "
            "arguments"
        ) from error


def custom_agent(made: Any, name: str | None = None, module: ModuleType | None = None) -> Agent:
    """An agent of a user's as the runner takes it.

    Args:
        made: an `Agent`, an object with `reply(game)`, or a function of a game.
        name: what results call it; its own name, or its class's, by default.
        module: of its file, if it comes from one.

    Raises:
        ProtocolError: it is none of these.
    """
    # The state of an asynchronous agent is a connection; its description says how its model is
    # asked.
    sha256 = identity_of(type(made) if isinstance(made, AsyncAgent) else made, module)
    called = (
        name
        or getattr(made, "name", None)
        or getattr(made, "__name__", None)
        or type(made).__name__
    )
    if isinstance(made, AsyncAgent):
        made.describe = _describer(made.describe, called, sha256)  # type: ignore[method-assign]
        made.name = called
        return made
    reply = getattr(made, "reply", made)
    if not callable(reply) or inspect.isclass(made):
        raise ProtocolError(
            f"agent {called!r} is a {type(made).__name__} without reply(game); give it that method"
        )
    return _Own(made, reply, called, sha256)


class _Own(Agent):
    """Calls the user's object, in a thread for each episode in flight."""

    def __init__(
        self, made: Any, reply: Callable[[Game], Reply | str], name: str, sha256: str
    ) -> None:
        self.name = name
        self._reply = reply
        self.calls_a_model = getattr(made, "calls_a_model", True)
        self.price = getattr(made, "price", None)
        self.env_options = getattr(made, "env_options", {})
        described = _describer(getattr(made, "describe", dict), name, sha256)
        options = {"options": dict(self.env_options)} if self.env_options else {}
        self.describe = lambda: {**described(), **options}  # type: ignore[method-assign]
        for method in ("check", "stop"):
            if hasattr(made, method):
                setattr(self, method, getattr(made, method))

    def reply(self, game: Game) -> Reply | str:
        return self._reply(game)


def _describer(
    own: Callable[[], dict[str, Any]], name: str, sha256: str
) -> Callable[[], dict[str, Any]]:
    identity = {"name": name, "custom": True, "source_sha256": sha256}
    return lambda: {**own(), **identity}


def _module(file: Path) -> ModuleType:
    """The file as a module, imported anew; files beside it can be imported by it."""
    unique = f"{FROM_FILE}{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(unique, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module
