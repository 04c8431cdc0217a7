"""A program that plays in a Ray pool, whose control process is killed, and then an actor. Prints what it meets."""

from __future__ import annotations

import os
import signal
import sys
import time

from vagen_adapters.service.ray_pool import ray_pool  # isort: skip - before Ray, which reads its settings then
import ray
from ray.cluster_utils import Cluster

from vagen_adapters.service.places import InPool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_envs.errors import SimulatorError

os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
# the cluster's own processes end themselves a minute after their control process, as they would anywhere
patience = os.environ.pop("RAY_gcs_rpc_server_reconnect_timeout_s")
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 80_000_000})
os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = patience  # noqa: SIM112 - that is its name
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
place = InPool(ray_pool(1, timeout=20.0))
env = RemoteEnv(place, "vagen/FrozenLake-v0")
env.reset(seed=1)
control = cluster.head_node.all_processes["gcs_server"][0].process.pid
os.kill(control, signal.SIGKILL)
began = time.monotonic()
print("without control:", env.step("x")[4]["turn"].index, flush=True)
os.kill(place.pool.hosts[0].pid, signal.SIGKILL)
try:
    env.step("y")
except SimulatorError as error:
    print("without control and actor:", error, flush=True)
time.sleep(max(0.0, float(sys.argv[1]) - (time.monotonic() - began)))
print("still there", flush=True)
for kind in cluster.head_node.all_processes.values():
    for info in kind:
        info.process.kill()
os._exit(0)
