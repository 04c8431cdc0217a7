"""An MkDocs hook that plays a short run and puts its report on the site, as
`example-report.html`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ARGUMENTS = (
    "-e",
    "sokoban",
    "-e",
    "frozenlake",
    "-a",
    "oracle",
    "-a",
    "blind",
    "-a",
    "random",
    "-n",
    "8",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the report to the files of the site."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "example"
        command = [sys.executable, "-m", "vagen_benchmarks", "bench", *ARGUMENTS, "--out", str(run)]
        subprocess.run(command, check=True, capture_output=True)
        report = (run / "report.html").read_text(encoding="utf-8")
    files.append(File.generated(config, "example-report.html", content=report))
    return files
