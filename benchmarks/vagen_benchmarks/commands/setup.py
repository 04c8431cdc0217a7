"""`vagen setup`: system packages that pip can't install."""

from __future__ import annotations

import subprocess
from importlib.resources import as_file, files

import typer

setup = typer.Typer(
    no_args_is_help=True,
    help="Install system packages that pip can't. Example: `vagen setup vulkan`",
)


@setup.callback()
def _group() -> None:  # keeps `vulkan` a subcommand, which Typer drops of a single command
    pass


@setup.command()
def vulkan() -> None:
    """Install a Vulkan driver that draws on the CPU (Mesa's lavapipe), for PrimitiveSkill.

    Does nothing where a driver is there. Without root it prints what to run as root.

    Example: `vagen setup vulkan`
    """
    with as_file(files("vagen_envs.primitive_skill") / "setup_vulkan.sh") as script:
        done = subprocess.run(["sh", str(script)], check=False)  # noqa: S603, S607
    raise typer.Exit(done.returncode)
