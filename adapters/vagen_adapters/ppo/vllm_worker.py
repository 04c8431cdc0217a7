"""What a vLLM worker needs for new weights: `--worker-extension-cls
vagen_adapters.ppo.vllm_worker.PolicyReload`.
"""

from __future__ import annotations

from typing import Any


class PolicyReload:
    """Mixed into vLLM's worker, so that `collective_rpc("reload_policy", …)` finds its method."""

    def reload_policy(self, **source: Any) -> None:
        """Load weights from `weights_iterator` or a folder `weights_path`, as vLLM's
        `reload_weights`.

        On CPU, vLLM computes from packed copies. `reload_weights` packs again the layers that it
        has loaded, and misses a language head whose weights are the embedding's: without this it
        would answer with the old ones.
        """
        worker: Any = self
        worker.reload_weights(**source)
        for module in worker.model_runner.get_model().modules():
            if (
                hasattr(module, "cpu_linear")
                and hasattr(module, "quant_method")
                and module.weight.numel()
            ):
                module.quant_method.process_weights_after_loading(module)
