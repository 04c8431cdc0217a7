"""A run folder on a hub, by the hub's own client."""

from __future__ import annotations

from pathlib import Path

from vagen_benchmarks.errors import BenchError, ProtocolError, RunFolderError
from vagen_benchmarks.runs.redaction import secrets
from vagen_benchmarks.runs.run_folder import RunFolder

CARD = """---
tags: [vagen-envs, benchmark-run]
---
# {name}

A run of `vagen bench`, protocol {sha256}.

{tasks}

Agents: {agents}

`report.html` shows every episode. Anyone can play them again without the models: `pip install "vagen-envs[bench]"`,
download this folder, and `vagen verify FOLDER`.
"""
LEFT_HERE = (".lock", "*.part")


def push(run: RunFolder, repo: str, *, private: bool = False, revision: str | None = None) -> str:
    """Upload a run folder as a data set, and return its address. The client's settings hold: `HF_TOKEN`, `HF_ENDPOINT`.

    Raises:
        ProtocolError: the client isn't installed.
        RunFolderError: a file holds a key of the environment's.
        BenchError: the hub refused.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise ProtocolError(
            f'vagen push needs the Python module {error.name!r}. Install it with: pip install "vagen-envs[push]"'
        ) from error
    _refuse_keys(run.path)
    card = run.path / "README.md"
    if not card.exists():
        protocol = run.protocol
        tasks = "\n".join(
            f"- {task.label}: {task.split}, seeds {task.first_seed} to {task.first_seed + task.episodes - 1}"
            for task in protocol.tasks
        )
        agents = ", ".join(str(agent["name"]) for agent in protocol.agents)
        sha256 = protocol.to_json()["sha256"]
        card.write_text(CARD.format(name=run.path.resolve().name, sha256=sha256, tasks=tasks, agents=agents), "utf-8")
    api = HfApi()
    try:
        made = api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id, folder_path=run.path, repo_type="dataset", revision=revision,
            ignore_patterns=list(LEFT_HERE), commit_message=f"Run {run.path.resolve().name}",
        )  # fmt: skip
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise BenchError(f"{repo} couldn't be pushed to: {error}") from error
    return str(made)


def _refuse_keys(folder: Path) -> None:
    """Raise RunFolderError if a text file holds a key of the environment's, which a model may have been made to say."""
    keys = {value.encode(): name for value, name in secrets().items()}
    for file in folder.iterdir():
        if not file.is_file() or file.suffix == ".pack" or not keys:  # pictures hold no text, and gigabytes
            continue
        text = file.read_bytes()
        for key, name in keys.items():
            if key in text:
                raise RunFolderError(
                    f"{file} holds the value of {name}; take it out, or unset {name} if it is no secret"
                )
