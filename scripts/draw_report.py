"""Draw docs/images/report.png: the report of a small run, as a browser shows it. Needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

AGENTS = ("oracle", "random", "blind")
WIDTH, HEIGHT = 1280, 1420


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium here; install Debian's package chromium")
    file = Path(__file__).parent.parent / "docs" / "images" / "report.png"
    with tempfile.TemporaryDirectory() as folder:
        run, shot = Path(folder) / "first-look", Path(folder) / "report.png"
        vagen = [
            sys.executable,
            "-m",
            "vagen_benchmarks",
            "bench",
            "--out",
            str(run),
            "-n",
            "24",
            "--judge",
            "rule",
        ]
        played = [word for env in ("sokoban", "frozenlake") for word in ("-e", env)]
        subprocess.run(
            [*vagen, *played, *(word for agent in AGENTS for word in ("-a", agent))], check=True
        )
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
        ]
        flags += [
            f"--window-size={WIDTH},{HEIGHT}",
            f"--user-data-dir={folder}/profile",
            f"--screenshot={shot}",
        ]
        subprocess.run(
            [browser, *flags, f"file://{run}/report.html"],
            check=True,
            capture_output=True,
            timeout=120,
        )
        with Image.open(shot) as image:
            image.convert("RGB").quantize(128).save(file, optimize=True)
    print(f"wrote {file}, {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
