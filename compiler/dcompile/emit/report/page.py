"""The page: a plan and what is drawn of it to one HTML file, equal byte for byte for equal plans."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from dcompile.core.units import format_bytes, format_seconds
from dcompile.emit.devices import fullest, used_bytes
from dcompile.emit.drawn import Drawn
from dcompile.emit.report.devices import devices_section
from dcompile.emit.report.layouts import layouts_section
from dcompile.emit.report.markup import Markup, box, drawing, join, size, table, tag, text, words
from dcompile.emit.report.mesh import mesh_section
from dcompile.emit.report.timeline import timeline_section
from dcompile.emit.words import count_of, mesh_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and nothing is run, whatever the recipe's texts are."""
MOST_ROWS = 50
MOST_ALTERNATIVES = 4
TIMES = {
    "step_seconds": "a step",
    "communication_seconds": "of it exchange",
    "encode_seconds": "encoding, each call",
    "decode_seconds": "decoding, each call",
    "offload_seconds": "copies from the host, each call",
    "load_seconds": "loading, once",
    "total_seconds": "the whole job",
}


def report_html(document: dict[str, Any], drawn: Drawn) -> str:
    """`report.html` of a plan.

    Args:
        document: the content of `plan.json`.
        drawn: what the drawings need beside it.
    """
    name = document["name"]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{name}: plan"),
        tag("style", Markup(_style())),
    )
    patterns = tag("svg", tag("defs", _hatch()), width=0, height=0, aria_hidden="true", class_="defs")
    body = tag(
        "body",
        patterns,
        _header(document),
        tag(
            "main",
            devices_section(document),
            mesh_section(document),
            layouts_section(document, drawn),
            timeline_section(document),
            _time_section(document),
            _decisions_section(document),
            _job_section(document),
        ),
        _footer(document),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n".replace("</section>", "</section>\n")


@lru_cache(maxsize=1)
def _style() -> str:
    lines = (Path(__file__).with_name("style.css")).read_text(encoding="utf-8").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


def _hatch() -> Markup:
    """The pattern of activations: they are an estimate, and come and go."""
    line = tag("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2", class_="hatch")
    ground = tag("rect", width=6, height=6, class_="ground")
    return tag("pattern", ground, line, id="act", width=6, height=6, patternUnits="userSpaceOnUse")


def _header(document: dict[str, Any]) -> Markup:
    pipeline = document["program"]["pipeline"]
    model = pipeline["id"] or pipeline["path"]
    tight = fullest(document["devices"])
    memory = tight["memory_bytes"]
    tiles = [
        ("strategy", document["strategy"], mesh_text(document["mesh"])),
        ("devices", len(document["devices"]), count_of(document["program"]["ranks"], "rank")),
        (
            "fullest device",
            f"{100 * used_bytes(tight) / memory:.0f} %" if memory else format_bytes(used_bytes(tight)),
            f"of {format_bytes(memory)}" if memory else "its limit is not known",
        ),
    ]
    if "estimate" in document:
        estimate = document["estimate"]
        tiles.append(("a step, estimate", format_seconds(estimate["step_seconds"]), "one denoising step"))
        tiles.append(("the job, estimate", format_seconds(estimate["total_seconds"]), "with loading"))
    moved = sum(entry["bytes"] for entry in document["traffic"].values())
    if moved:
        tiles.append(("traffic", format_bytes(moved), "a step, each rank"))
    made = (
        tag("div", tag("dt", label), tag("dd", tag("strong", value), tag("span", note))) for label, value, note in tiles
    )
    return tag(
        "header",
        tag("h1", document["name"]),
        tag("p", f"{pipeline['class']}, ", tag("code", model), f", {pipeline['dtype']}"),
        tag("dl", *made, class_="tiles"),
    )


def _time_section(document: dict[str, Any]) -> Markup:
    """What a step moves, and what it and the job are estimated to take."""
    rows = [(name, moved["calls"], size(moved["bytes"])) for name, moved in document["traffic"].items()]
    if rows:
        inside = [table(("what", "calls", "bytes of all calls"), rows, "One denoising step of one rank")]
    elif document["program"]["devices_per_rank"] > 1:
        inside = [tag("p", "No collectives: the devices of a process hand their activations on.")]
    else:
        alone = document["program"]["ranks"] == 1
        said = "One rank: nothing is exchanged." if alone else "Ranks exchange nothing during a step."
        inside = [tag("p", said)]
    estimate = document.get("estimate")
    if estimate is None:
        inside.append(tag("p", "No estimate of time: the speed of these devices or of their link is not known."))
    else:
        step, moved = estimate["step_seconds"], estimate["communication_seconds"]
        load, total = estimate["load_seconds"], estimate["total_seconds"]
        if moved:
            inside.append(_halves("A step", "computing", step - moved, "exchange", moved))
        inside.append(_halves("The job", "loading", load, "making pictures", total - load))
        times = [
            (said, tag("data", format_seconds(estimate[key]), value=f"{estimate[key]:.6g}"))
            for key, said in TIMES.items()
            if key in estimate
        ]
        inside.append(table(("estimate", "time"), times, "An estimate, not a measurement"))
    return tag("section", tag("h2", "A step, and the job"), *inside)


def _halves(what: str, one: str, one_seconds: float, other: str, other_seconds: float) -> Markup:
    """A bar of two parts of a time."""
    width, total = 920.0, (one_seconds + other_seconds) or 1.0
    said = f"{what}: {one} {format_seconds(one_seconds)}, {other} {format_seconds(other_seconds)}"
    middle = width * one_seconds / total
    return drawing(
        said,
        width,
        42.0,
        words(0.0, 14.0, said, class_="name"),
        box(0.0, 20.0, middle - 1, 16.0, f"{one}: {format_seconds(one_seconds)}", class_="first"),
        box(middle, 20.0, width - middle, 16.0, f"{other}: {format_seconds(other_seconds)}", class_="second"),
    )


def _decisions_section(document: dict[str, Any]) -> Markup:
    rows = []
    for decision in document["decisions"]:
        others = decision["alternatives"]
        said = _list(others[:MOST_ALTERNATIVES])
        if len(others) > MOST_ALTERNATIVES:
            more = tag("summary", f"and {len(others) - MOST_ALTERNATIVES} more")
            said = join([said, tag("details", more, _list(others[MOST_ALTERNATIVES:]))])
        rows.append((tag("code", decision["what"]), decision["chosen"], decision["because"], said))
    body = (
        table(("what", "chosen", "because", "instead of"), rows)
        if rows
        else tag("p", "The recipe leaves nothing open.")
    )
    return tag("section", tag("h2", "Decisions"), body)


def _list(texts: list[str]) -> Markup:
    """Words after each other; one line each where they have commas of their own."""
    if any("," in one for one in texts):
        return tag("ul", *(tag("li", one) for one in texts), class_="plain")
    return text(", ".join(texts))


def _job_section(document: dict[str, Any]) -> Markup:
    """What is made: the call, and the pictures."""
    run = document["program"]["run"]
    call = [
        (tag("code", key), tag("span", json.dumps(value, ensure_ascii=False), class_="any"))
        for key, value in run["call"].items()
    ]
    rows = [(row["index"], tag("span", row["prompt"], class_="any"), row["seed"]) for row in run["rows"][:MOST_ROWS]]
    more = len(run["rows"]) - len(rows)
    return tag(
        "section",
        tag("h2", "The job"),
        table(("argument", "value"), call, f"Calls of {count_of(run['batch'], 'picture')}"),
        tag(
            "details",
            tag("summary", count_of(len(run["rows"]), "picture")),
            table(("picture", "prompt", "seed"), rows),
            tag("p", f"and {more} more in plan.json") if more else "",
        ),
    )


def _footer(document: dict[str, Any]) -> Markup:
    versions = ", ".join(f"{name} {version}" for name, version in document["requires"].items())
    return tag(
        "footer",
        tag(
            "p", f"dcompile {document['tool_version']}, for {versions}. Recipe ", tag("code", document["recipe_digest"])
        ),
    )
