"""The mesh of ranks with its axes, and which rank has which devices."""

from __future__ import annotations

from math import prod
from typing import Any

from dcompile.core.numbered import say_numbers
from dcompile.emit.report.markup import Markup, box, drawing, table, tag, words

AXES = {
    "data": "replicas: each makes its share of the pictures",
    "cfg": "the guided and the unguided branch",
    "ring": "the sequence is split; keys and values go round",
    "ulysses": "the sequence is split; heads are exchanged around attention",
    "tensor": "weight matrices are split; results are added up",
}
CELL_WIDTH, CELL_HEIGHT, SPACE, BLOCK_SPACE = 50.0, 34.0, 5.0, 18.0
MOST_IN_A_ROW = 16
TOP, LEFT = 26.0, 92.0
"""Where the grid begins; one axis alone needs no room on the left."""


def mesh_section(document: dict[str, Any]) -> Markup:
    """The mesh as a grid of ranks: the fastest axis across, the next one down, further axes as blocks."""
    program, axes = document["program"], document["program"]["mesh_axes"]
    per_rank, ranks = program["devices_per_rank"], program["ranks"]
    if not axes:
        kind = "one process" if per_rank == 1 else f"one process with {per_rank} devices"
        return tag("section", tag("h2", "Mesh"), tag("p", f"No mesh: {kind}."), *_one_process(per_rank))
    degrees = [degree for _, degree in axes]
    cells, right, bottom = [], 0.0, 0.0
    for rank in range(ranks):
        place = _coordinates(rank, degrees)
        x, y = _position(place, degrees)
        right, bottom = max(right, x + CELL_WIDTH), max(bottom, y + CELL_HEIGHT)
        cells.append(_cell(rank, place, [axis for axis, _ in axes], x, y, per_rank, program["ranks_per_node"]))
    names = " x ".join(f"{axis} {degree}" for axis, degree in axes)
    picture = drawing(f"mesh of {ranks} ranks: {names}", right + 2, bottom + 2, *_labels(axes), *cells)
    rows = [(axis, degree, AXES[axis]) for axis, degree in axes]
    return tag("section", tag("h2", "Mesh"), picture, table(("axis", "degree", "what it does"), rows))


def _coordinates(rank: int, degrees: list[int]) -> list[int]:
    """A rank's place on each axis; the last axis is the fastest."""
    return [rank // prod(degrees[at + 1 :]) % degree for at, degree in enumerate(degrees)]


def _position(place: list[int], degrees: list[int]) -> tuple[float, float]:
    across, down = CELL_WIDTH + SPACE, CELL_HEIGHT + SPACE
    if len(degrees) == 1:
        return 1 + place[0] % MOST_IN_A_ROW * across, TOP + place[0] // MOST_IN_A_ROW * down
    column, row = place[-1], place[-2]
    width, height = degrees[-1] * across + BLOCK_SPACE, degrees[-2] * down + BLOCK_SPACE
    blocks = [*reversed(place[:-2]), 0, 0]
    return LEFT + column * across + blocks[0] * width, TOP + row * down + blocks[1] * height


def _cell(rank: int, place: list[int], axes: list[str], x: float, y: float, per_rank: int, per_node: int) -> Markup:
    devices = list(range(rank * per_rank, (rank + 1) * per_rank))
    where = ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=True))
    noun = "device" if per_rank == 1 else "devices"
    title = f"rank {rank}: {where}; {noun} {say_numbers(devices)}; node {rank // per_node}"
    middle = x + CELL_WIDTH / 2
    inside = [box(x, y, CELL_WIDTH, CELL_HEIGHT, title, rx=4, class_="cell")]
    inside.append(words(middle, y + CELL_HEIGHT / 2 + 5, rank, class_="rank", text_anchor="middle"))
    return tag("g", *inside)


def _labels(axes: list[list[Any]]) -> list[Markup]:
    """The names of the axes beside the grid."""
    fastest, degree = axes[-1]
    left = LEFT if len(axes) > 1 else 1.0
    found = [words(left, TOP - 10, f"{fastest} {degree} →", class_="axis")]
    if len(axes) > 1:
        second, degree = axes[-2]
        found.append(words(LEFT - 12, TOP + 21, f"{second} {degree} ↓", class_="axis", text_anchor="end"))
    if len(axes) > 2:
        further = ", ".join(f"{axis} {degree}" for axis, degree in axes[:-2])
        found.append(words(LEFT + 110, TOP - 10, f"blocks side by side: {further}", class_="axis"))
    return found


def _one_process(per_rank: int) -> list[Markup]:
    if per_rank == 1:
        return []
    across = CELL_WIDTH + SPACE + 20
    cells = [
        tag(
            "g",
            box(1 + at * across, 2.0, CELL_WIDTH + 20, CELL_HEIGHT, f"device {at} of rank 0", rx=4, class_="cell"),
            words(at * across + 36, 24.0, f"device {at}", class_="rank", text_anchor="middle"),
        )
        for at in range(per_rank)
    ]
    return [drawing(f"one rank with {per_rank} devices", per_rank * across, CELL_HEIGHT + 4, *cells)]
