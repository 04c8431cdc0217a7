"""What a shell's Tab offers for the names that commands take; see `vagen --install-completion`."""

from __future__ import annotations


def complete_env(begun: str) -> list[str]:
    """Short names of environments that begin so."""
    import vagen_envs
    from vagen_benchmarks.runs.protocol import short_name

    return [name for name in map(short_name, vagen_envs.ENV_IDS) if name.startswith(begun)]


def complete_agent(begun: str) -> list[str]:
    """Agents of this package and models of its registry that begin so."""
    from vagen_benchmarks.agents.factory import SCRIPTED
    from vagen_benchmarks.clients.registry import Registry

    return sorted(name for name in {*SCRIPTED, *Registry().models} if name.startswith(begun))
