"""`vagen train`: the trainer of `vagen_adapters.ppo` from the command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vagen_adapters.errors import TrainingConfigError, errors_as, in_short
from vagen_benchmarks.agents.custom import is_custom, named_judge
from vagen_benchmarks.commands import options
from vagen_benchmarks.commands.options import (
    EXIT_INTERRUPTED,
    EXIT_STOPPED,
    OptionPairs,
    parse_options,
)
from vagen_benchmarks.commands.printing import err
from vagen_benchmarks.commands.training_folders import (
    EXTRA,
    check_finished,
    check_model,
    check_out,
    finish,
    go_on,
    is_finished,
)
from vagen_benchmarks.commands.training_lines import RolloutLines, show_lines
from vagen_benchmarks.commands.training_plan import check_plan, machine_of, print_plan
from vagen_benchmarks.runs.run_writer import lock
from vagen_benchmarks.runs.tasks import resolve_id
from vagen_benchmarks.runs.training_play import TrainingPlay
from vagen_envs.errors import VagenError
from vagen_envs.extras import need

if TYPE_CHECKING:
    from vagen_adapters.ppo.recipes import Recipe


def train(
    recipe: Annotated[
        str, typer.Option(help="Such as `vagen-base`, or the path of a TOML file of your own.")
    ],
    out: Annotated[Path, typer.Option(help="Where checkpoints and the trained model go.")],
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            help="An environment, or a JSON table as in `[[environments]]`; may be repeated.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The policy's folder or name; the recipe's by default.")
    ] = None,
    option: OptionPairs = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="A setting of the trainer, NAME=VALUE; may be repeated."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="A checkpoint to go on from; `auto` takes the newest whole one, or begins if "
            "there is none."
        ),
    ] = None,
    without_reasoning_reward: Annotated[
        bool,
        typer.Option(
            "--without-reasoning-reward",
            help="Leave out the reward for reasoning that a recipe has.",
        ),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Judge of the reasoning: `rule`, `llm-structured:MODEL`, both, or `FILE.py:CLASS`."
        ),
    ] = None,
    gate: options.Gate = None,
    weighting: options.Weighting = None,
    penalty: options.Penalty = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what fits and end; no GPU or weights needed.")
    ] = False,
    gpu_memory: Annotated[
        float | None,
        typer.Option(min=1, help="GiB of each GPU, for --plan; by default this one's."),
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs for --plan.")] = 1,
    sharding: Annotated[
        str, typer.Option(help="How GPUs share weights in --plan: ddp, zero2, fsdp or zero3.")
    ] = "ddp",
) -> None:
    """Train a vision-language model on environments with multi-turn PPO.

    Example: `vagen train --recipe vagen-base -e sokoban --model Qwen/Qwen2.5-VL-3B-Instruct --out
    runs/ppo`
    """
    need("vagen train", *EXTRA)
    from vagen_adapters.ppo.config import check_setting
    from vagen_adapters.ppo.recipes import load_recipe
    from vagen_adapters.ppo.start_checks import check_start

    chosen = load_recipe(recipe)
    start = chosen.model if model is None else model
    if start is None:
        raise TrainingConfigError(f"recipe {recipe} names no model; give --model")
    settings = parse_options(setting)
    for name in settings:
        if name in ("environments", "output_dir"):
            raise TrainingConfigError(
                f"--set {name}: the command has an option of its own for it, --env or --out"
            )
    for name, value in {**chosen.settings, **settings}.items():
        check_setting(name, value)
    environments = _environments(env or chosen.environments, parse_options(option))
    if not environments:
        raise TrainingConfigError(
            f"recipe {recipe} names no environments; give --env, such as --env sokoban"
        )
    wanted = {"judge": judge, "gate": gate, "weighting": weighting, "penalty": penalty}
    given = {name: value for name, value in wanted.items() if value is not None}
    if without_reasoning_reward and given:
        raise TrainingConfigError(
            f"--{next(iter(given))} contradicts --without-reasoning-reward; leave one out"
        )
    if plan:  # no device is looked for
        settings = {"bf16": chosen.settings.get("bf16", True), **settings, "use_cpu": True}
    elif resume is None:
        check_out(out)
    config = _config(chosen, environments, out, settings)
    rewards = {} if without_reasoning_reward else _reward_options(config, chosen, given)
    check_start(start, config, has_score=bool(rewards), elsewhere=plan)
    if plan:
        print_plan(start, config, machine_of(gpu_memory, gpus, sharding), on_gpu=True)
        return
    about = {"recipe": recipe, "model": start, "reasoning_reward": _as_json(rewards)}
    if resume == "auto" and is_finished(out):
        check_finished(out, {**about, "settings": config.to_dict()})
        typer.echo(f"{out} holds the trained model already")
        return
    _run(config, start, resume, rewards, about)


def _run(
    config: Any,
    model: str,
    resume: str | None,
    rewards: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
) -> None:
    """Check what a training rests on, and train."""
    from vagen_adapters.ppo.checkpoints import check_checkpoint, last_checkpoint

    out = Path(config.output_dir)
    checkpoint = None if resume is None else Path(resume)
    if resume == "auto":
        checkpoint = last_checkpoint(out)
    check_model(model)
    if checkpoint is not None:
        check_checkpoint(checkpoint, config.to_dict())
    scores = _scores(config, rewards)
    is_main = config.process_index == 0
    if is_main:
        check_plan(model, config)
    config.enable_jit_checkpoint = True
    with lock(out) if is_main else contextlib.nullcontext():
        _train(config, model, checkpoint, scores, about)


def _environments(entries: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of `environments` from names or tables, with full ids, and `options` under those of
    their own.
    """
    tables = []
    for entry in entries:
        try:
            table = (
                json.loads(entry)
                if isinstance(entry, str) and entry.lstrip().startswith("{")
                else entry
            )
        except ValueError as error:
            raise TrainingConfigError(f"--env {entry} is no JSON table: {error}") from error
        table = {"id": table} if isinstance(table, str) else dict(table)
        if isinstance(table.get("id"), str):
            table["id"] = resolve_id(table["id"])
        if options:
            table["options"] = {**options, **table.get("options", {})}
        tables.append(table)
    return tables


def _reward_options(
    config: Any, recipe: Recipe, given: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Options of the reward for reasoning, by the names of the environments that have one."""
    found = {}
    for environment in config.training_environments:
        options = {**recipe.reward_options(environment.id), **given}
        if options:
            found[environment.name] = options
    return found


def _as_json(rewards: Mapping[str, Mapping[str, Any]]) -> Any:
    return json.loads(json.dumps(rewards, default=str))


def _scores(config: Any, rewards: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The trainer's `score`: for each task whose environment has a reward for reasoning."""
    from vagen_adapters.ppo.reasoning import ReasoningScore, make_reward

    scores: dict[str, Any] = {}
    for environment in config.training_environments:
        options = dict(rewards.get(environment.name, {}))
        if options:
            if is_custom(str(options.get("judge", ""))):
                options["judge"] = named_judge(options["judge"])
            tasks = environment.tasks()
            with contextlib.closing(tasks[0].make()) as env:
                score = ReasoningScore(make_reward(options, env), config.reasoning_credit)
            scores |= {task.name: score for task in tasks}
    return scores


def _config(
    recipe: Recipe, environments: Sequence[Any], out: Path, settings: Mapping[str, Any]
) -> Any:
    from transformers.integrations import get_reporting_integration_callbacks

    try:
        made = recipe.config(environments, str(out), **settings)
    except VagenError:
        raise
    except ImportError as error:  # such as DeepSpeed, which accelerate was told to use
        raise TrainingConfigError(f"these settings need a library: {in_short(error)}") from error
    except (
        TypeError,
        ValueError,
    ) as error:
        # transformers' and Python's, of values that can't be read.
        wanted = " ".join(f"-s {name}={value}" for name, value in settings.items()) or "no -s"
        words = " ".join(str(error).split())
        if "use_cpu" in words:  # transformers' only sign that there is no GPU
            raise TrainingConfigError(
                f"there is no GPU here that can train in bfloat16 ({words}); to train on the CPU "
                "add -s use_cpu=true -s bf16=false"
            ) from error
        raise TrainingConfigError(f"settings that can't be taken ({wanted}): {words}") from error
    with errors_as(TrainingConfigError, "report_to", "install the tracker, or choose another"):
        for callback in get_reporting_integration_callbacks(made.report_to):
            callback()
    return made


def _train(
    config: Any, model: str, checkpoint: Path | None, score: Any, about: Mapping[str, Any]
) -> None:
    from vagen_adapters.errors import StoppedBySignalError
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

    out = Path(config.output_dir)
    with errors_as(
        TrainingConfigError, f"{model} can't be loaded or trained", "check the folder and settings"
    ):
        trainer = MultiTurnPPOTrainer(
            model,
            config,
            score=score or None,
            about=about,
            watch=TrainingPlay(out, config.tasks, config.eval_episodes),
            show_progress=RolloutLines(),
        )
        show_lines(trainer)
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        trainer.save_model(config.output_dir)
    except StoppedBySignalError as stopped:
        err.print(f"{stopped}: {go_on(out)}", soft_wrap=True)
        raise typer.Exit(EXIT_STOPPED) from None
    except KeyboardInterrupt:
        err.print(f"stopped: {go_on(out)}", soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if config.process_index == 0:
        finish(out)
    # a process group that is left standing may abort the process
    trainer.accelerator.end_training()
    done = trainer.state.global_step
    whole = trainer.state.max_steps
    early = "" if done == whole else f", which a callback ended after update {done} of {whole}"
    typer.echo(f"{config.output_dir} holds the trained model{early}")
