"""Processes that train together, forked from one that has imported the trainer: an import takes ten seconds of a core."""

import gc
import multiprocessing
import os
import traceback
from multiprocessing import connection
from pathlib import Path

from ports import free_port

import vagen_adapters

CONFIGS = Path(vagen_adapters.__file__).parent / "ppo" / "launch"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "vagen_adapters.ppo.trainer",
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint",
        "transformers.models.qwen3_vl.modeling_qwen3_vl",
        "vagen_envs.frozen_lake.env",
    ]
)


def started(function, *args, **variables):
    """A process that runs a function of a helper's, under these variables of its environment."""
    to, ours = FORKS.Pipe(duplex=False)[::-1]
    process = FORKS.Process(target=_run, args=(to, function, args, variables))
    process.start()
    to.close()
    process.said = ours
    return process


def _run(to, function, args, variables):
    os.environ.update(variables)
    gc.freeze()  # accelerate collects garbage at each training's end, and would read all that was imported
    try:
        function(*args)
    except BaseException:
        to.send(traceback.format_exc())
        os._exit(1)  # another may wait for it, and what joins threads at a process's end with it


def together(function, *args, **variables):
    """Run it in two processes that find each other as those of `torchrun --nproc_per_node 2` do."""
    group = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ranks = [{"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [started(function, *args, **group, **rank, **variables) for rank in ranks]
    alive = list(processes)
    while alive:
        connection.wait([each.sentinel for each in alive])
        for each in processes:
            if each.exitcode:  # the other waits for it
                for one in alive:
                    one.kill()
                raise AssertionError(
                    each.said.recv() if each.said.poll() else f"exit code {each.exitcode}"
                )
        alive = [each for each in alive if each.exitcode is None]


def launcher_variables(kind):
    """What `accelerate launch` tells each of two processes of a launch file of ours, on a CPU."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_multi_gpu_env

    words = [
        "--config_file",
        str(CONFIGS / f"8-{kind}.yaml"),
        "--num_processes",
        "2",
        "--mixed_precision",
        "no",
        "--main_process_port",
        str(free_port()),
        "script.py",
    ]
    args, *_ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))
    told = prepare_multi_gpu_env(args)
    return {name: each for name, each in told.items() if os.environ.get(name) != each} | {
        "ACCELERATE_TORCH_DEVICE": "cpu"
    }
