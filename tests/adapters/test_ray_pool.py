"""The pool of Ray actors on a real cluster of several nodes on this machine: killed, cut off, grown."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
pytest.importorskip("ray", reason="needs the extra ray")
pytest.importorskip("fastapi", reason="needs the extra serve")

import ray
from ray.cluster_utils import Cluster
from service_fixtures import LAKE, SOKOBAN, Served, kill, wait_until
from service_soak import soak, strike_at

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.places import InPool
from vagen_adapters.service.ray_cluster import find_cluster
from vagen_adapters.service.ray_pool import ray_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv

MEMORY = 80_000_000
QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_timeout_ms": 2000,
         "health_check_failure_threshold": 4}  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """A head and a node that stays, with room for four actors."""
    paths = os.pathsep.join(path for path in sys.path if path)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = paths  # the nodes' processes import what this one does
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "object_store_memory": MEMORY, "_system_config": QUICK},
    )
    try:
        made.add_node(num_cpus=2, object_store_memory=MEMORY, resources={"stays": 8})
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@contextlib.contextmanager
def node(cluster, **resources):
    """A node more, for a while."""
    made = cluster.add_node(num_cpus=2, object_store_memory=MEMORY, resources=resources)
    try:
        yield made
    finally:
        if made in cluster.worker_nodes:
            cluster.remove_node(made, allow_graceful=False)


@contextlib.contextmanager
def pooled(*args, **kwargs):
    place = InPool(ray_pool(*args, **kwargs))
    try:
        yield place
    finally:
        place.close()


def nodes_of(place):
    return {re.search(r"\((\w+)\)", host.where)[1] for host in place.pool.hosts}


def test_it_plays_as_local_environments_do_on_several_nodes(cluster):
    with pooled(4) as place:
        theirs = RemoteVectorEnv(place, SOKOBAN, 8, max_turns=2)
        ours = [gym.make(SOKOBAN, max_turns=2).unwrapped for _ in range(8)]
        shown, _ = theirs.reset(seed=3)
        assert len(nodes_of(place)) == 2
        for i, env in enumerate(ours):
            assert np.array_equal(shown["image"][i], env.reset(seed=3 + i)[0]["image"])
        for _ in range(2):
            *_, info = theirs.step([env.oracle_reply() for env in ours])
            for turn, env in zip(info["turn"], ours, strict=True):
                if turn is not None and env._running:
                    assert turn == env.step(turn.reply)[4]["turn"]
        theirs.close()


def test_a_killed_actors_sessions_go_on_in_another(cluster):
    with pooled(2) as place:
        envs = [RemoteEnv(place, LAKE) for _ in range(4)]
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
            env.step("x")
        kill(place.pool.hosts[0].pid)
        assert [env.step("y")[4]["turn"].index for env in envs] == [1] * 4
        assert place.pool.replaced == 1


def test_a_node_that_dies_is_survived(cluster):
    with node(cluster, doomed=2) as doomed, pooled(2, resources={"doomed": 1}, patience=120) as place:
        envs = RemoteVectorEnv(place, LAKE, 4)
        envs.reset(seed=0)
        kept = RemoteEnv(InPool(ray_pool(1, resources={"stays": 1})), LAKE)
        kept.reset(seed=1)
        cluster.remove_node(doomed, allow_graceful=False)
        with node(cluster, doomed=2):  # where the replacements find room
            wait_until(lambda: place.pool.replaced >= 2)
            *_, info = envs.step(["x"] * 4)
            for i, turn in enumerate(info["turn"]):
                local = gym.make(LAKE).unwrapped
                local.reset(seed=i)
                assert turn == local.step("x")[4]["turn"]  # as if nothing had happened
        assert kept.step("x")[4]["turn"].index == 0
        kept._place.close()


@pytest.mark.slow
def test_a_node_that_is_cut_off_is_survived(cluster):
    """Its processes stand still, as a machine does whose cable was pulled: no connection is closed, nothing answers."""
    with node(cluster, far=2) as far, pooled(1, resources={"far": 1}, timeout=4.0, patience=120) as place:
        env = RemoteEnv(place, LAKE)
        env.reset(seed=1)
        stopped = [place.pool.hosts[0].pid]
        stopped += [info.process.pid for kind in far.all_processes.values() for info in kind]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with node(cluster, far=2):
                began = time.monotonic()
                assert env.step("x")[4]["turn"].index == 0
                assert time.monotonic() - began < 60
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_more_actors_are_started_when_there_is_need_and_wait_for_a_machine(cluster):
    with node(cluster, arena=1), pooled(
        1, 2, resources={"arena": 1}, sessions_each=2, spare_after=2.0, patience=120
    ) as place:  # fmt: skip
        envs = [RemoteEnv(place, LAKE) for _ in range(3)]  # the third asks for an actor that has no room yet,
        envs[2].reset(seed=0)  # and plays in the one that there is meanwhile
        assert [host.is_ready() for host in place.pool.hosts] == [True, False]
        with node(cluster, arena=1):
            wait_until(lambda: all(host.is_ready() for host in place.pool.hosts))
            fourth = RemoteEnv(place, LAKE)
            fourth.reset(seed=0)
            assert len(nodes_of(place)) == 2
            for env in (*envs, fourth):
                env.close()
            wait_until(lambda: len(place.pool.hosts) == 1)  # the machine is free again


@pytest.mark.slow
def test_the_server_serves_from_the_cluster(cluster):
    with Served(pool=ray_pool(2), oracle=True) as served:
        env, local = RemoteEnv(Service(served.url), SOKOBAN), gym.make(SOKOBAN).unwrapped
        for each in (env, local):
            each.reset(seed=1)
        assert env.step(local.oracle_reply())[4]["turn"] == local.step(local.oracle_reply())[4]["turn"]


@pytest.mark.slow
def test_no_turn_is_lost_or_doubled_while_actors_are_killed(cluster):
    with pooled(2) as place:
        pids = strike_at(lambda: [host.pid for host in place.pool.hosts if hasattr(host, "pid")])
        assert soak([place, place], pids, 1_500, 16, 300)[1] >= 2


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_losing_rays_control_process_is_an_error_in_the_sessions():
    """Ray's own library ends the program a minute after that."""
    script = Path(__file__).parents[1] / "helpers" / "ray_without_control.py"
    said = subprocess.run([sys.executable, script, "80"], check=False, capture_output=True, text=True, timeout=380)
    assert "without control: 0" in said.stdout
    assert "Ray's control process at" in said.stdout
    assert said.stdout.endswith("still there\n"), said.stderr[-2000:]
    assert said.returncode == 0


def test_a_missing_cluster_is_one_error_at_once(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(ServiceError, match="in no Ray cluster"):
        find_cluster()
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    for address in ("auto", "127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(ServiceError, match=r"no Ray cluster answers at .*127\.0\.0\.1:1"):
            find_cluster(address)
    assert time.monotonic() - began < 5
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        assert find_cluster(address) == address


def test_the_command_without_a_cluster_ends_with_one_error(monkeypatch, tmp_path):
    """It waits for nothing: 1.2 s of processor time, nearly all of it for loading the command."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "vagen_benchmarks.cli", "serve", "--pool", "ray"]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 1, said.stderr
    assert "in no Ray cluster; start one (`ray start --head`)" in said.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
