"""When gradients are summed over processes: once an update, with its last part, whatever spreads the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from vagen_adapters.errors import TrainingConfigError

T = TypeVar("T")


def summed_with_last(accelerator: Any, model: Any, parts: Sequence[T], *, each: bool = False) -> Iterator[T]:
    """Yield the parts of an update, and sum what `accelerator.backward` leaves over processes with the last of them.

    Until then each process holds whole gradients, under FSDP 2 and ZeRO too. DeepSpeed's engine takes its step here,
    as it does in `accelerator.backward` otherwise.

    Args:
        accelerator: of accelerate.
        model: as `accelerator.prepare` gave it.
        parts: in order; the same number in every process.
        each: sum with each part instead, so that spread gradients are never whole.

    Raises:
        TrainingConfigError: DeepSpeed is older than its `coalesce_grad_reduction`.
    """
    state = accelerator.gradient_state
    wrapped = getattr(accelerator, "deepspeed_engine_wrapped", None)
    if wrapped is not None and not each:
        yield from _under_deepspeed(state, wrapped.engine, parts)
        return
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        state._set_sync_gradients(last)
        if last or each:
            yield part
        else:
            with accelerator.no_sync(model):
                yield part


def _under_deepspeed(state: Any, engine: Any, parts: Sequence[T]) -> Iterator[T]:
    """Stages 2 and 3 refuse `no_sync`, for they spread gradients as they come; this leaves them whole till the end."""
    if not hasattr(engine, "coalesce_grad_reduction"):
        raise TrainingConfigError(
            "gradient_sync=last needs DeepSpeed 0.19.8 or newer (coalesce_grad_reduction); upgrade it, or set "
            "gradient_sync to each"
        )
    state._set_sync_gradients(False)  # else accelerate would take a step with each part
    with engine.coalesce_grad_reduction():
        yield from parts
    state._set_sync_gradients(True)
    engine.set_gradient_accumulation_boundary(True)
    engine.step()
