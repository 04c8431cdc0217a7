"""The pool of Ray actors on a real cluster of several nodes on this machine: killed, cut off, grown."""

from __future__ import annotations

import contextlib
import os
import re
import sys

import gymnasium as gym
import numpy as np
import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
pytest.importorskip("ray", reason="needs the extra ray")

import ray
from ray.cluster_utils import Cluster
from service_fixtures import LAKE, SOKOBAN, Served, kill, wait_until
from service_soak import soak, strike_at

from vagen_adapters.service.client import Service
from vagen_adapters.service.ray_pool import ray_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv

MEMORY = 80_000_000
QUICK = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
}


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


def nodes_of(served):
    return {re.search(r"\((\w+)\)", worker.where)[1] for worker in served.pool.workers}


def pids_of(served):
    return [int(re.search(r"process (\d+)", worker.where)[1]) for worker in served.pool.workers]


def test_it_plays_as_local_environments_do_on_several_nodes(cluster):
    with Served(ray_pool(4)) as served:
        theirs = RemoteVectorEnv(Service(served.url), SOKOBAN, 8, max_turns=2)
        ours = [gym.make(SOKOBAN, max_turns=2).unwrapped for _ in range(8)]
        shown, _ = theirs.reset(seed=3)
        assert len(nodes_of(served)) == 2
        for i, env in enumerate(ours):
            assert np.array_equal(shown["image"][i], env.reset(seed=3 + i)[0]["image"])
        for _ in range(2):
            *_, info = theirs.step([env.oracle_reply() for env in ours])
            for turn, env in zip(info["turn"], ours, strict=True):
                if turn is not None and env._running:
                    assert turn == env.step(turn.reply)[4]["turn"]
        theirs.close()


def test_a_killed_actors_sessions_go_on_in_another(cluster):
    with Served(ray_pool(2)) as served:
        envs = [RemoteEnv(Service(served.url), LAKE) for _ in range(4)]
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
            env.step("x")
        kill(pids_of(served)[0])
        assert [env.step("y")[4]["turn"].index for env in envs] == [1] * 4
        assert served.pool.replaced == 1


def test_a_node_that_dies_is_survived(cluster):
    with node(cluster, doomed=2) as doomed, Served(ray_pool(2, resources={"doomed": 1})) as served:
        envs = RemoteVectorEnv(Service(served.url), LAKE, 4)
        envs.reset(seed=0)
        cluster.remove_node(doomed, allow_graceful=False)
        with node(cluster, doomed=2):  # where the replacements find room
            wait_until(lambda: served.pool.replaced >= 2)
            *_, info = envs.step(["x"] * 4)
            for i, turn in enumerate(info["turn"]):
                local = gym.make(LAKE).unwrapped
                local.reset(seed=i)
                assert turn == local.step("x")[4]["turn"]  # as if nothing had happened


@pytest.mark.slow
def test_the_server_serves_from_the_cluster(cluster):
    with Served(ray_pool(2)) as served:
        env, local = RemoteEnv(Service(served.url), SOKOBAN), gym.make(SOKOBAN).unwrapped
        for each in (env, local):
            each.reset(seed=1)
        assert (
            env.step(local.oracle_reply())[4]["turn"] == local.step(local.oracle_reply())[4]["turn"]
        )


@pytest.mark.slow
def test_no_turn_is_lost_or_doubled_while_actors_are_killed(cluster):
    with Served(ray_pool(2)) as served:
        services = [Service(served.url) for _ in range(2)]
        assert soak(services, strike_at(lambda: pids_of(served)), 1_500, 16, 300)[1] >= 2
