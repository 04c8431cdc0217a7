"""Make vagen_envs/svg/icons.jsonl.gz from two npm packages of MIT icons.

    npm pack @iconify-json/fluent-emoji-flat@1.2.6 @iconify-json/flat-color-icons@1.2.3
    python scripts/build_svg_icons.py iconify-json-*.tgz

Keeps icons of basic shapes, at most 1,500 characters and at least two colours, and drops
near-duplicates: the same shapes in other colours (skin tones), and pictures that look alike or
alike when mirrored. The same packages give the same file.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from vagen_envs.svg.renderer import shared_renderer

OUTPUT = Path(__file__).parent.parent / "vagen_envs" / "svg" / "icons.jsonl.gz"
SHAPES = {"g", "path", "circle", "ellipse", "rect", "line", "polygon", "polyline"}
LONGEST = 1_500
ALIKE = (
    6.0  # mean absolute difference of 24x24 pictures, 0 to 255; below it two icons look the same
)
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b")


def icons_of(tarball: Path) -> list[tuple[str, str]]:
    """Name and SVG of all icons of an @iconify-json package, aliases left out."""
    with tarfile.open(tarball) as archive:
        member = archive.extractfile("package/icons.json")
        if member is None:
            raise SystemExit(
                f"{tarball} has no package/icons.json; is it an @iconify-json package?"
            )
        data = json.load(member)
    icons = []
    for name, icon in data["icons"].items():
        width, height = (icon.get(side, data.get(side, 16)) for side in ("width", "height"))
        box = f"{icon.get('left', 0)} {icon.get('top', 0)} {width} {height}"
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">{icon["body"]}</svg>'
        icons.append((f"{data['prefix']}/{name}", svg))
    return sorted(icons)


def is_simple(svg: str) -> bool:
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}  # noqa: S314
    colours = {colour.lower() for colour in COLOUR.findall(svg)}
    return len(svg) <= LONGEST and tags <= SHAPES | {"svg"} and len(colours) >= 2


def thumbnail(svg: str) -> np.ndarray:
    pixels = (
        shared_renderer("cairosvg").draw(svg, 96).pixels.reshape(24, 4, 24, 4, 3)
    )  # what the shipped file was made with
    return pixels.mean(axis=(1, 3), dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tarballs", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    rows: list[bytes] = []
    outlines: set[str] = set()
    seen = np.empty((0, 24, 24, 3))
    for tarball in sorted(asked.tarballs):
        icons = icons_of(tarball)
        kept = 0
        for name, svg in icons:
            outline = COLOUR.sub("", svg)
            if outline in outlines or not is_simple(svg):
                continue
            outlines.add(outline)
            small = thumbnail(svg)
            ways = (small, small[:, ::-1], small[::-1])
            if (
                len(seen)
                and min(np.abs(seen - way).mean(axis=(1, 2, 3)).min() for way in ways) < ALIKE
            ):
                continue
            seen = np.concatenate([seen, small[None]])
            rows.append(json.dumps({"Filename": name, "Svg": svg}).encode() + b"\n")
            kept += 1
        print(f"{tarball.name}: kept {kept} of {len(icons)} icons")
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
        file.writelines(rows)
    asked.output.write_bytes(buffer.getvalue())
    print(f"{asked.output}: {len(rows)} icons, {len(buffer.getvalue())} bytes")


if __name__ == "__main__":
    main()
