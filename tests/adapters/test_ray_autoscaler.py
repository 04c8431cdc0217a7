"""Ray's own autoscaler beside the pool of actors: machines come when actors find no room, and go when they are idle.

The machines are processes here, by Ray's provider for tests. `ray.cluster_utils.AutoscalingCluster` would start
the same, but ends every Ray process on the machine first, and reads a file that Ray's wheel lacks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
pytest.importorskip("ray", reason="needs the extra ray")
pytest.importorskip("fastapi", reason="needs the extra serve")

import ray
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
from service_fixtures import LAKE, kill, wait_until

from vagen_adapters.service.places import InPool
from vagen_adapters.service.ray_pool import ray_pool
from vagen_adapters.service.remote_env import RemoteEnv

MEMORY = 80_000_000
IDLE = 15.0
"""Seconds after which an idle machine ends."""
MINE = "VAGEN_AUTOSCALED"
"""In the environment of each process of the cluster, for the machines' processes to be found by."""


def configuration(address):
    """A head without room for more than one actor, and up to three machines more."""
    lists = ["setup_commands", "head_setup_commands", "worker_setup_commands", "initialization_commands",
             "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude",
             "rsync_filter"]  # fmt: skip
    machine = {"CPU": 1, "object_store_memory": MEMORY}
    return {
        "cluster_name": "arena", "max_workers": 3, "upscaling_speed": 3.0, "idle_timeout_minutes": IDLE / 60,
        "provider": {"type": "fake_multinode", "gcs_address": address, "use_node_id_as_ip": True,
                     "disable_node_updaters": True, "disable_launch_config_check": True},
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "machine": {"resources": machine, "node_config": {}, "min_workers": 0, "max_workers": 3},
        },
        "head_node_type": "ray.head.default", "auth": {}, "docker": {}, "file_mounts": {},
        "file_mounts_sync_continuously": False, **{name: [] for name in lists},
    }  # fmt: skip


@pytest.fixture
def autoscaled(tmp_path):
    """The address of a cluster with an autoscaler."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"{ray.util.get_node_ip_address()}:{port}"
    configured = tmp_path / "cluster.json"
    configured.write_text(json.dumps(configuration(address)))
    environment = {
        "RAY_AUTH_MODE": "disabled", **os.environ, MINE: str(port), "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_enable_autoscaler_v2": "0",
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }  # fmt: skip
    command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block",
               f"--port={port}", "--num-cpus=1", f"--object-store-memory={MEMORY}", "--include-dashboard=false",
               f"--autoscaling-config={configured}"]  # fmt: skip
    with (tmp_path / "head.log").open("w+") as log:
        head = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            wait_until(lambda: head.poll() is not None or "Ray runtime started" in Path(log.name).read_text(), 240)
            assert head.poll() is None, Path(log.name).read_text()[-3000:]
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            yield address
        finally:
            ray.shutdown()
            head.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                head.wait(20)
            for pid in processes_with(f"{MINE}={port}"):
                with contextlib.suppress(ProcessLookupError):
                    kill(pid)
            head.wait()


def processes_with(setting):
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if setting.encode() in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def machines():
    return sum(node["Alive"] for node in ray.nodes())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_machines_come_for_actors_without_room_and_go_when_idle(autoscaled):
    place = InPool(ray_pool(1, 3, sessions_each=1, spare_after=2.0, patience=300))
    try:
        first, *others = [RemoteEnv(place, LAKE) for _ in range(3)]
        first.reset(seed=0)
        assert machines() == 1
        for env in others:  # each asks for another actor, and plays beside the first one meanwhile
            env.reset(seed=1)
            assert env.step("x")[4]["turn"].index == 0
        assert [host.is_ready() for host in place.pool.hosts] == [True, False, False]
        wait_until(lambda: all(host.is_ready() for host in place.pool.hosts), 300)
        assert machines() == 3  # with a core each, so each actor has one of its own
        late = RemoteEnv(place, LAKE)
        late.reset(seed=2)
        assert late.step("x")[4]["turn"].index == 0
        for env in (*others, late):
            env.close()
        wait_until(lambda: len(place.pool.hosts) == 1)
        wait_until(lambda: machines() == 1, 300)
        assert first.step("x")[4]["turn"].index == 0  # nothing has happened to who stayed
    finally:
        place.close()
