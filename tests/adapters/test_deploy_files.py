"""The files under deploy/: by the tools that check such files, and against what they name in this repository.

`kubernetes-validate` and `hadolint` are in the group `deploy`, 160 MB that other tests don't need. What schemas can't
know is checked here: that options exist, that ports, labels and secrets are the same wherever they are named.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="needs PyYAML")
pytest.importorskip("typer", reason="needs the extra bench")

import typer.main
import yaml

from vagen_benchmarks.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VERSION = "1.31"
"""Of Kubernetes: `autoscaling/v2` and `policy/v1` are older, and clusters that are still kept up are newer."""


def tool(name):
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"needs {name}, of the group `deploy`")


def documents(file):
    return list(yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")))


def only(file, kind):
    (found,) = [each for each in documents(file) if each["kind"] == kind]
    return found


def serve_options(words):
    """What `vagen serve` reads of these words; it ends the test where it can't."""
    group = typer.main.get_command(app)
    return group.commands["serve"].make_context("serve", list(words)).params


def test_kubernetes_takes_the_manifests(tmp_path):
    command = [tool("kubernetes-validate"), "-k", VERSION, "--strict"]
    service = tmp_path / "service.yaml"  # KubeRay's own kind isn't in Kubernetes' schema
    service.write_text(yaml.safe_dump(only("ray.yaml", "Service")))
    said = subprocess.run(
        [*command, DEPLOY / "kubernetes.yaml", service], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (DEPLOY / "kubernetes.yaml").read_text().replace("periodSeconds", "periodSecond")
    )
    assert subprocess.run([*command, broken], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("name", ["Containerfile", "bench.Containerfile", "openenv/Dockerfile"])
def test_hadolint_takes_the_containerfiles(name):
    said = subprocess.run(
        [tool("hadolint"), DEPLOY / name], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (0, "")


def test_kubernetes_starts_what_the_command_knows():
    pod = only("kubernetes.yaml", "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    options = serve_options(["--host", "0.0.0.0", "--port", "8765", *container["args"]])  # noqa: S104
    assert [port["containerPort"] for port in container["ports"]] == [options["port"]]
    assert [variable["name"] for variable in container["env"]] == ["VAGEN_SERVE_KEY"]
    labels = pod["metadata"]["labels"].items()
    assert only("kubernetes.yaml", "Service")["spec"]["selector"].items() <= labels
    for kind, name in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert only("kubernetes.yaml", kind)["spec"][name]["matchLabels"].items() <= labels


def test_kuberay_starts_what_the_command_knows():
    job = only("ray.yaml", "RayJob")["spec"]
    command, serve, *words = shlex.split(job["entrypoint"])
    assert (command, serve) == ("vagen", "serve")
    options = serve_options(words)
    assert options["ray"] == "auto"
    pinned = re.search(r"^ray==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is None or job["rayClusterSpec"]["rayVersion"] == pinned[1]
    head = job["rayClusterSpec"]["headGroupSpec"]["template"]
    assert (
        only("ray.yaml", "Service")["spec"]["selector"].items()
        <= head["metadata"]["labels"].items()
    )
    assert {"name": "http", "containerPort": options["port"]} in head["spec"]["containers"][0][
        "ports"
    ]


def test_the_benchmarks_image_has_what_it_starts():
    text = (DEPLOY / "bench.Containerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"ARG EXTRAS=(\S+)", text)[1].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])
    assert entry[0] in project["scripts"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    needed = {"vagen_envs", "vagen_rewards", "adapters", "benchmarks", "README.md", "LICENSE"}
    assert needed.isdisjoint(ignored)


def test_the_image_has_what_it_starts():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in (
        re.search(r"ARG EXTRAS=(\S+)", text)[1],
        re.search(r"--build-arg EXTRAS=([\w,]+)", text)[1],
    ):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
    entry, more = (
        json.loads(re.search(rf"^{name} (.*)$", text, re.MULTILINE)[1])
        for name in ("ENTRYPOINT", "CMD")
    )
    assert entry[0] in project["scripts"]
    options = serve_options(entry[2:] + more)
    assert f"EXPOSE {options['port']}" in text
    assert f":{options['port']}/healthz" in text
    uid = int(re.search(r"^USER (\d+)$", text, re.MULTILINE)[1])
    assert (
        uid
        == only("kubernetes.yaml", "Deployment")["spec"]["template"]["spec"]["securityContext"][
            "runAsUser"
        ]
    )
