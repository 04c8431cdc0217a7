"""Hostile SVGs by family: references to the outside, bombs, cycles, odd numbers, malformed text."""

from __future__ import annotations

import tomllib
from pathlib import Path

NS = 'xmlns="http://www.w3.org/2000/svg"'
XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'


def svg(body: str, attributes: str = 'viewBox="0 0 100 100"', prolog: str = "") -> str:
    return f"{prolog}<svg {NS} {XLINK} {attributes}>{body}</svg>"


def use_bomb(levels: int, times: int, tag: str = "g", href: str = "xlink:href") -> str:
    uses = [
        f'<{tag} id="l{i}">' + f'<use {href}="#l{i - 1}"/>' * times + f"</{tag}>"
        for i in range(1, levels)
    ]
    layers = ['<circle id="l0" r="1"/>', *uses]
    return svg(f'<defs>{"".join(layers)}</defs><use {href}="#l{levels - 1}"/>')


def chain(kind: str, count: int, times: int, attribute: str) -> str:
    layers = [f'<{kind} id="l0" width="9" height="9"><circle r="1"/></{kind}>']
    for i in range(1, count):
        inside = f'<rect width="9" height="9" {attribute}="url(#l{i - 1})"/>' * times
        layers.append(f'<{kind} id="l{i}" width="9" height="9">{inside}</{kind}>')
    return svg(
        f'<defs>{"".join(layers)}</defs><rect width="99" height="99" {attribute}="url(#l{count - 1})"/>'
    )


def cycle(kind: str, attribute: str, length: int) -> str:
    layers = "".join(
        f'<{kind} id="c{i}" width="9" height="9"><rect width="9" height="9" {attribute}="url(#c{(i + 1) % length})"/>'
        f"</{kind}>"
        for i in range(length)
    )
    return svg(f'<defs>{layers}</defs><rect width="50" height="50" {attribute}="url(#c0)"/>')


def hostile(canary: str, address: str) -> dict[str, str]:
    """By name `family: what`. `canary` is a readable file's path, `address` an HTTP address that is listened to."""
    written = tomllib.loads(
        Path(__file__).with_name("data").joinpath("hostile_svgs.toml").read_text(encoding="utf-8")
    )
    found = {
        f"{family}: {name}": text
        for family, texts in written.items()
        for name, text in texts.items()
    }

    def add(family: str, **inputs: str) -> None:
        found.update({f"{family}: {name.replace('_', ' ')}": text for name, text in inputs.items()})

    targets = {
        "file": f"file://{canary}",
        "path": canary,
        "http": f"{address}/x.svg",
        "ftp": "ftp://127.0.0.1/x",
        "data": "data:image/svg+xml,%3Csvg/%3E",
        "relative": "../../etc/passwd#x",
        "scheme_less": "//127.0.0.1/x",
    }
    for name, target in targets.items():
        add(
            f"outside, {name}",
            image=svg(f'<image width="9" height="9" xlink:href="{target}"/>'),
            image_href=svg(f'<image width="9" height="9" href="{target}"/>'),
            use=svg(f'<use xlink:href="{target}"/>'),
            use_href=svg(f'<use href="{target}#a"/>'),
            tref=svg(f'<text><tref xlink:href="{target}"/></text>'),
            fill=svg(f'<rect width="9" height="9" fill="url({target})"/>'),
            fill_quoted=svg(f'<rect width="9" height="9" fill="url(\'{target}\')"/>'),
            style=svg(f'<rect width="9" height="9" style="fill:url({target}#a)"/>'),
            import_rule=svg(f'<style>@import url("{target}");</style><rect width="9" height="9"/>'),
            import_string=svg(f'<style>@import "{target}";</style><rect width="9" height="9"/>'),
            font_face=svg(
                f"<style>@font-face{{font-family:a;src:url({target})}}</style><text>a</text>"
            ),
            sheet_url=svg(f"<style>rect{{fill:url({target})}}</style><rect width='9' height='9'/>"),
            gradient=svg(
                f'<linearGradient id="g" xlink:href="{target}"/><rect width="9" height="9" fill="url(#g)"/>'
            ),
            mask=svg(f'<rect width="9" height="9" mask="url({target}#m)"/>'),
            marker=svg(f'<path d="M0 0L9 9" marker-end="url({target}#m)"/>'),
            fe_image=svg(
                f'<filter id="f"><feImage xlink:href="{target}"/></filter><rect filter="url(#f)"/>'
            ),
            base=svg('<use href="#a"/>', f'viewBox="0 0 9 9" xml:base="{target}"'),
            link=svg(f'<a href="{target}"><rect width="9" height="9"/></a>'),
        )
    entity = f'<!DOCTYPE svg [<!ENTITY x SYSTEM "file://{canary}">]>'
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    add(
        "entities",
        external=svg("<text>&x;</text>", prolog=entity),
        parameter=svg("<text/>", prolog=f'<!DOCTYPE svg [<!ENTITY % p SYSTEM "{address}/d"> %p;]>'),
        dtd=svg("<text/>", prolog=f'<!DOCTYPE svg SYSTEM "{address}/svg.dtd">'),
        billion_laughs=svg(
            "<text>&l9;</text>", prolog=f'<!DOCTYPE svg [<!ENTITY l0 "ha">{laughs}]>'
        ),
        quadratic=svg(
            "<text>" + "&a;" * 3000 + "</text>",
            prolog=f'<!DOCTYPE svg [<!ENTITY a "{"a" * 9000}">]>',
        ),
        undefined=svg("<text>&nothing;</text>"),
        in_attribute=svg('<rect width="&x;" height="9"/>', prolog=entity),
        public=svg(
            "", prolog='<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/x.dtd">'
        ),
    )
    for levels, times in ((6, 10), (8, 8), (16, 3), (30, 2), (12, 4)):
        add(
            "bombs",
            **{
                f"use_{times}_to_{levels}": use_bomb(levels, times),
                f"use_href_{times}_to_{levels}": use_bomb(levels, times, href="href"),
                f"symbol_{times}_to_{levels}": use_bomb(levels, times, "symbol"),
            },
        )
    for kind, attribute in (
        ("pattern", "fill"),
        ("mask", "mask"),
        ("clipPath", "clip-path"),
        ("pattern", "stroke"),
    ):
        add(
            "chains",
            **{
                f"{kind}_{attribute}_4_to_9": chain(kind, 9, 4, attribute),
                f"{kind}_{attribute}_2_to_20": chain(kind, 20, 2, attribute),
                f"{kind}_{attribute}_long": chain(kind, 150, 1, attribute),
            },
        )
        add("cycles", **{f"{kind}_{attribute}_{n}": cycle(kind, attribute, n) for n in (1, 2, 7)})
    long_use = (
        "".join(f'<g id="u{i}"><use href="#u{i + 1}"/></g>' for i in range(400))
        + '<use href="#u0"/>'
    )
    add("cycles", long_use=svg(long_use))
    marks = (
        '<marker id="m" viewBox="0 0 9 9"><circle r="1"/>'
        + "<path d='M0 0L1 1'/>" * 50
        + "</marker>"
    )
    add(
        "many",
        markers=svg(f'{marks}<path marker-mid="url(#m)" d="M0 0{"L1 1" * 3000}"/>'),
        text=svg(f"<text>{'a' * 21_000}</text>"),
        million=svg(f"<text>{'a' * 1_000_000}</text>"),
        path=svg(f'<path d="M0 0{"L1 1" * 100_000}"/>'),
        elements=svg('<rect width="1" height="1"/>' * 3000),
        inherited_pattern=svg(
            '<pattern id="p" width="1" height="1">' + "<circle r='1'/>" * 60 + "</pattern>"
            '<g fill="url(#p)"><circle r="1"/></g>'
            '<g fill="url(#p)">' + "<circle r='1'/>" * 700 + "</g>"
        ),
        depth=svg("<g>" * 100 + "</g>" * 100),
        depth_3000=svg("<g>" * 3000 + "</g>" * 3000),
        spans=svg("<text>" + "<tspan>" * 500 + "a" + "</tspan>" * 500 + "</text>"),
        attributes=svg("<rect " + " ".join(f'a{i}="1"' for i in range(6000)) + "/>"),
    )
    for number in ("1e308", "1e400", "-1e1200", "NaN", "inf", "-Infinity", "9" * 400, "1e7"):
        add(
            f"number {number[:9]}",
            radius=svg(f'<circle r="{number}"/>'),
            transform=svg(f'<g transform="scale({number})"><rect width="1" height="1"/></g>'),
            path=svg(f'<path d="M0 0L{number} 1"/>'),
            view_box=svg("<rect/>", f'viewBox="0 0 {number} 1"'),
            style=svg(f'<path d="M0 0L9 9" style="stroke-width:{number}"/>'),
            font=svg(f'<text font-size="{number}">a</text>'),
        )
    add(
        "malformed",
        null=svg("<text>\0</text>"),
        surrogate=svg("<text>\ud800</text>"),
        control=svg("<text>\x01</text>"),
        comment="<!--" * 9,
        gzip="\x1f\x8b\x08" + "a" * 99,
    )
    corners = "".join(
        f"L{i * 37 % 100} {i * 61 % 101}" for i in range(1500)
    )  # half a million crossings
    star = f'<path id="p" stroke="red" fill="none" d="M0 0{corners}"/>'
    add(
        "slow",  # only the limits stop these
        star=svg(star + '<use href="#p"/>' * 1000),
        wide_star=svg(
            star.replace('fill="none"', 'fill="blue" stroke-width="9" stroke-linejoin="round"')
            + '<use href="#p"/>' * 18
        ),
    )
    return found
