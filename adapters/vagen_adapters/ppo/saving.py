"""What a training leaves behind: whole policies, checkpoints at the ends of rollouts, and a way to
go on after signals.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.trainer.base_trainer import _BaseTrainer

from vagen_adapters.errors import StoppedBySignalError
from vagen_adapters.ppo import CARD, checkpoints
from vagen_adapters.ppo.stopping import StopRequest

if TYPE_CHECKING:
    from vagen_adapters.ppo.actor_critic import ActorCritic
    from vagen_adapters.ppo.chat_encoder import ChatEncoder
    from vagen_adapters.ppo.config import MultiTurnPPOConfig
    from vagen_adapters.ppo.rollout_worker import RolloutWorker

logger = logging.getLogger(__name__)
LEVEL_SAMPLER = "level_sampler.json"
"""The file of a checkpoint that holds the state of the level sampler."""
RUNNING = "running_episodes.json"
"""The file of a checkpoint that holds the episodes which go on in the next rollout."""
LIBRARIES = ("vagen-envs", "torch", "transformers", "trl", "peft", "vllm", "gymnasium")
"""Whose versions a training's card holds."""


class SavingTrainer(_BaseTrainer):
    """The part of `MultiTurnPPOTrainer` that writes and reads folders.

    Checkpoints are made at the ends of rollouts only: what was sampled by earlier weights is in
    none. One that a callback asks for within a rollout waits for its end, and so does the end of a
    training that comes with it.
    """

    args: MultiTurnPPOConfig
    model: ActorCritic
    encoder: ChatEncoder
    worker: RolloutWorker
    control: Any
    stop_request: StopRequest
    about: Mapping[str, Any]
    _save_waits = False
    _stop_waits = False
    _saved: Path | None = None

    @functools.cached_property
    def card(self) -> dict[str, Any]:
        """How the policy was trained, as JSON: what it plays with, all settings, what the caller
        told, and versions.
        """
        args = self.args
        settings = args.to_dict()  # transformers leaves tokens out
        return {
            "environments": [
                {"id": task.environment.id, "options": dict(task.options)} for task in args.tasks
            ],
            "max_tokens": args.max_tokens,
            "max_thinking_tokens": args.max_thinking_tokens,
            "context": args.context,
            **self.about,
            "settings": json.loads(json.dumps(settings, default=str)),
            "versions": _versions(),
        }

    def _write_card(self, folder: Path) -> None:
        text = json.dumps(self.card, indent=1, ensure_ascii=False) + "\n"
        (folder / CARD).write_text(text, encoding="utf-8")

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or str(self.args.output_dir))
        with checkpoints.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.model.save_pretrained(folder, state_dict)
            self.encoder.save_pretrained(folder)
            torch.save(self.args, folder / "training_args.bin")
            self._write_card(folder)

    # -- ends of rollouts --------------------------------------------------------------------------

    def should_stop(self) -> bool:
        """Whether a signal has come to any of the processes; all of them ask at the same time."""
        received = self.stop_request.received is not None
        if self.accelerator.num_processes > 1 and self.args.enable_jit_checkpoint:
            mine = torch.tensor(float(received), device=self.args.device)
            received = bool(self.accelerator.reduce(mine, "sum"))
        return received

    def stop_before_rollout(self) -> None:
        """Raise StoppedBySignalError if a signal has come, once there is a checkpoint of the
        updates before.
        """
        if not self.should_stop():
            return
        if self.state.global_step:
            self._save_checkpoint(self.model, None)
        raise self._stopped()

    def _stopped(self) -> StoppedBySignalError:
        name = self.stop_request.received or "a signal"
        done = self.state.global_step
        whole = self.state.max_steps
        return StoppedBySignalError(f"{name} ended the training after update {done} of {whole}")

    def _maybe_log_save_evaluate(self, *given: Any, **options: Any) -> None:
        at_end = self.state.global_step % self.args.steps_per_rollout == 0
        if at_end:
            self.control.should_save |= self._save_waits
            self.control.should_training_stop |= self._stop_waits
            self._save_waits = self._stop_waits = False
            if self.should_stop() and self.state.global_step < self.state.max_steps:
                self.control.should_save = self.control.should_training_stop = True
        elif self.control.should_save:
            self._save_waits = True
            self.control.should_save = False
            self._stop_waits |= self.control.should_training_stop
            self.control.should_training_stop = False
        super()._maybe_log_save_evaluate(*given, **options)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run = Path(self._get_output_dir(trial))
        folder = run / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if self._saved == folder:
            return
        most = self.args.save_total_limit
        with checkpoints.writing(folder):
            (folder / checkpoints.COMPLETE).unlink(missing_ok=True)
            # No older checkpoint goes before this one is complete.
            self.args.save_total_limit = None
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self.args.save_total_limit = most
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                (folder / LEVEL_SAMPLER).write_text(
                    json.dumps(self.worker.level_sampler.state()), encoding="utf-8"
                )
                if self.worker.running is not None:
                    (folder / RUNNING).write_text(
                        json.dumps(self.worker.running.state()), encoding="utf-8"
                    )
                checkpoints.mark_complete(folder, self.args.to_dict())
                best = self.state.best_model_checkpoint
                checkpoints.rotate(run, most, {folder, Path(best or folder)})
        self._saved = folder

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """As `Trainer.train`; True resumes from the last checkpoint that is whole, if there is one.

        Raises:
            StoppedBySignalError: with `enable_jit_checkpoint`, once SIGTERM or SIGUSR1 has come and
                a checkpoint of all updates so far is written.
        """
        out = Path(str(self.args.output_dir))
        if resume_from_checkpoint is True:
            last = checkpoints.last_checkpoint(out)
            resume_from_checkpoint = None if last is None else str(last)
        if resume_from_checkpoint:
            self._saved = Path(resume_from_checkpoint)
            checkpoints.check_checkpoint(self._saved, self.args.to_dict())
            self._note_changes(self._saved)
        if self.args.should_save:
            with checkpoints.writing(out):
                out.mkdir(parents=True, exist_ok=True)
                checkpoints.recover_best(out)
                self._write_card(out)
        try:
            done = super().train(resume_from_checkpoint=resume_from_checkpoint, **options)
            if self.should_stop() and self.state.global_step < self.state.max_steps:
                raise self._stopped()
            return done
        finally:
            self.stop_request.restore()

    def _note_changes(self, checkpoint: Path) -> None:
        """Record on the card, and log, which settings change from here on: such a run is no
        ablation.
        """
        with checkpoints.reading(checkpoint):
            changed = checkpoints.changes(checkpoint, self.card)
            earlier = json.loads((checkpoint / CARD).read_text(encoding="utf-8")).get("resumed", [])
        now = [{"from": checkpoint.name, "changed": changed}] if changed else []
        if earlier or now:
            self.card["resumed"] = [*earlier, *now]
        for name, (there, here) in changed.items():
            logger.warning(
                "%s was trained with %s=%r; from here on it is %r", checkpoint, name, there, here
            )

    # -- going on ----------------------------------------------------------------------------------

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with checkpoints.reading(resume_from_checkpoint):
            # Trainer has written FSDP's shards beside, the reference among them.
            if self.is_fsdp_enabled:
                super()._load_from_checkpoint(resume_from_checkpoint, model)
            else:
                self.model.load_trained(resume_from_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with checkpoints.reading(checkpoint):
                super()._load_optimizer_and_scheduler(checkpoint)
                state = json.loads((Path(checkpoint) / LEVEL_SAMPLER).read_text(encoding="utf-8"))
                self.worker.level_sampler.restore(state)
                if self.worker.running is not None and (Path(checkpoint) / RUNNING).is_file():
                    running = json.loads((Path(checkpoint) / RUNNING).read_text(encoding="utf-8"))
                    self.worker.running.restore(running, self.worker.rollout)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with checkpoints.reading(checkpoint or ""):
            super()._load_rng_state(checkpoint)


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
