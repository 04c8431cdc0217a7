"""Options of a hostile client: nothing is opened, imported or connected that their declaration doesn't permit."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from service_fixtures import SOKOBAN, Command

from vagen_adapters.permission import check_offers, remote_bounds
from vagen_adapters.service.client import Service
from vagen_adapters.service.host import EnvHost, HostAnswer, HostCall
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_benchmarks.commands.serve import read_offers
from vagen_benchmarks.errors import BenchError
from vagen_envs import ENV_IDS, VagenEnv
from vagen_envs.errors import ConfigError

ROOT = Path(__file__).parents[2]
LIGHTS = "lights_out:example/LightsOut-v0"
SVG = "vagen/SVGReconstruction-v0"
MARK = "hostile_mark"
"""In every hostile text, so that it can be found in what a worker asks of its kernel."""

HOSTILE = json.loads(Path(__file__).with_name("hostile_options.json").read_text(encoding="utf-8"))
LARGE = [
    MARK * 1000,
    10**300,
    -(10**300),
    math.nan,
    math.inf,
    -math.inf,
    [1] * 1000,
    ["S" * 100] * 100,
]
VALUES = [*HOSTILE["texts"], *HOSTILE["others"], *LARGE]


@pytest.fixture(scope="module")
def host():
    """A worker under watch; call it with an id and options."""
    path = os.pathsep.join(
        [
            str(ROOT),
            str(ROOT / "adapters"),
            str(ROOT / "examples" / "lights_out"),
            os.environ.get("PYTHONPATH", ""),
        ]
    )
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/helpers/watched_host.py")],
        text=True,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )

    def ask(env_id, options):
        process.stdin.write(json.dumps([env_id, options]) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    assert process.wait(60) == 0


def config_class(env_id, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "lights_out")
    if env_id == LIGHTS:
        __import__("lights_out")
    module, _, name = gym.spec(env_id.rpartition(":")[2]).entry_point.partition(":")
    made = getattr(__import__(module, fromlist=[name]), name)
    assert issubclass(made, VagenEnv)
    return made.config_class


@pytest.mark.parametrize("env_id", [*ENV_IDS, LIGHTS])
def test_no_option_with_any_value_opens_imports_or_connects(host, env_id, monkeypatch):
    """Each option of each id, and Gymnasium's, with each hostile value: refused, or within what is declared."""
    declared = config_class(env_id, monkeypatch)
    own = [field.name for field in dataclasses.fields(declared)]
    bounds = remote_bounds(declared)
    assert set(bounds) <= set(own)
    for name in [*own, *HOSTILE["names"], *inspect.signature(gym.make).parameters]:
        for value in VALUES:
            said, events, failure = host(env_id, {name: value})
            assert not events, (name, value, events)
            if said:
                assert said == "ConfigError"
            else:
                assert name in bounds
                assert bounds[name].admits(value)
                assert (
                    failure is None or failure[0] == "bad_config"
                )  # the environment has bounds of its own


@pytest.mark.parametrize("env_id", [*ENV_IDS, LIGHTS])
def test_nothing_that_names_a_file_a_module_or_an_address_is_open(env_id, monkeypatch):
    """By what the words of the declarations say, and by their kind: a free text is open only where it is listed here."""
    declared = config_class(env_id, monkeypatch)
    texts = {
        name
        for name, bound in remote_bounds(declared).items()
        if bound.admits("x") or bound.admits(["x"])
    }
    assert texts <= {"separator", "tags", "desc", "sources", "action_names", "default_action"}
    for name in HOSTILE["closed"]:
        assert name not in remote_bounds(declared)


def test_an_operator_offers_by_name(tmp_path):
    pack = tmp_path / "pack" / "sokoban"
    pack.mkdir(parents=True)
    (pack / "system.txt").write_text("The operator's own words. $reply")
    offers = read_offers([f"prompt_pack=mine:{tmp_path / 'pack'}", "prompt_pack=terse:terse"])
    assert offers == {"prompt_pack": {"mine": str(tmp_path / "pack"), "terse": "terse"}}
    host = EnvHost()

    def opened(**options):
        return host.run(
            HostCall("s", "open", {"env_id": SOKOBAN, "options": options, "offers": offers})
        )

    body = json.loads(opened(prompt_pack="mine").body)
    assert body["system_prompt"].startswith("The operator's own words.")
    assert body["config"]["prompt_pack"] == "mine"  # not where it lies
    assert isinstance(opened(prompt_pack="terse"), HostAnswer)
    for wrong in (str(tmp_path / "pack"), "default", ["mine"], None, "Mine"):
        refused = opened(prompt_pack=wrong)
        assert refused.code == "bad_config"
        assert "must be one of 'mine', 'terse'" in refused.message
    check_offers([SOKOBAN], offers)
    with pytest.raises(ConfigError, match="Did you mean 'prompt_pack'"):
        check_offers([SOKOBAN], {"prompt_pac": {"a": "b"}})
    for wrong in ("prompt_pack", "prompt_pack=mine", "=a:b", "x=:b", "x=a:"):
        with pytest.raises(BenchError, match="OPTION=NAME:VALUE"):
            read_offers([wrong])


def test_a_server_offers_by_name(tmp_path):
    samples = tmp_path / "icons.jsonl"
    square = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="{}" height="9" fill="red"/></svg>'
    samples.write_text(
        "".join(
            json.dumps({"Filename": f"{i}.svg", "Svg": square.format(i / 20)}) + "\n"
            for i in range(180)
        )
    )
    with Command("--workers", 1, "--offer", f"dataset=icons:{samples}") as command:
        service = Service(command.url)
        env = RemoteEnv(service, SVG, dataset="icons", scorer="classical")
        assert env.config.dataset == "icons"
        env.reset(seed=1)
        env.close()
        with pytest.raises(ConfigError, match="one of 'icons'"):
            RemoteEnv(service, SVG, dataset=str(samples))
        service.close()
