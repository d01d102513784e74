"""`report.html`: its numbers are the plan's, texts stay texts, the same bytes every time, nothing from elsewhere."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from dcompile.core.units import format_bytes
from dcompile.driver import Compiled, compile_recipe
from dcompile.emit.drawn import Drawn, Stretch, drawn_of
from dcompile.emit.report.page import report_html

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
VOID = {"meta", "br", "wbr"}
HOSTILE = '</script></title></style><img src=x onerror=alert(1)>"\' onload="x'


class Node:
    """An element: its name, attributes, children and own text."""

    def __init__(self, name: str, attributes: dict[str, str | None]) -> None:
        self.name, self.attributes, self.children, self.own = name, attributes, [], ""

    def all(self, name: str) -> list[Node]:
        """Every element of a name below this one, in order."""
        found = []
        for child in self.children:
            found += [child] if child.name == name else []
            found += child.all(name)
        return found

    @property
    def text(self) -> str:
        return self.own + "".join(child.text for child in self.children)


class Page(HTMLParser):
    """A page as a tree; every element has to be closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].own += data

    def section(self, title: str) -> Node:
        return next(node for node in self.root.all("section") if node.all("h2")[0].text == title)


@cache
def compiled(name: str, *overrides: str) -> Compiled:
    made = compile_recipe(ROOT / "recipes" / f"{name}.yaml", overrides)
    assert made.is_valid, made.diagnostics
    return made


def written(made: Compiled) -> dict[str, Any]:
    assert made.bundle is not None
    plan: dict[str, Any] = json.loads(made.bundle["plan.json"])
    return plan


def page_of(made: Compiled) -> Page:
    assert made.bundle is not None
    return Page(made.bundle["report.html"])


def values(node: Node) -> list[float]:
    return [float(found.attributes["value"] or "") for found in node.all("data")]


def rows(table: Node) -> list[list[Node]]:
    return [[cell for cell in row.children if cell.name in ("td", "th")] for row in table.all("tbody")[0].all("tr")]


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_numbers_are_those_of_the_plan(file: Path) -> None:
    made = compiled(file.stem)
    plan, page = written(made), page_of(made)

    table = page.section("Devices").all("table")[0]
    assert sum(_devices(row[0].text) for row in rows(table)) == len(plan["devices"])
    for row in rows(table):
        device = plan["devices"][int(re.search(r"\d+", row[0].text)[0])]
        keys = ("memory_bytes", "weight_bytes", "activation_bytes", "reserve_bytes", "free_bytes")
        for cell, key in zip(row[1:6], keys, strict=True):
            assert values(cell) == ([] if device[key] is None else [device[key]])
        held = {item.own.strip(): values(item)[0] for item in row[6].all("li")}
        assert held == {name: part["weight_bytes"] for name, part in device["components"].items()}

    layout = rows(page.section("Layout").all("table")[0])
    assert {row[0].text: values(row[3])[0] for row in layout} == {
        name: component["weight_bytes"] for name, component in plan["components"].items()
    }

    timeline = page.section("Memory over the job").all("table")
    for table in timeline:
        seen = [(row[0].text, *values(row[2]), *values(row[3])) for row in rows(table)]
        assert seen in [
            [(phase["phase"], phase["weight_bytes"], phase["activation_bytes"]) for phase in device["phases"]]
            for device in plan["devices"]
        ]
    assert timeline

    time = page.section("A step, and the job")
    captioned = {table.all("caption")[0].text: table for table in time.all("table")}
    traffic = captioned.get("One denoising step of one rank")
    moved = [[row[0].text, int(row[1].text), *values(row[2])] for row in rows(traffic)] if traffic else []
    assert moved == [[name, one["calls"], one["bytes"]] for name, one in plan["traffic"].items()]
    seconds = captioned.get("An estimate, not a measurement")
    estimate = [values(row[1])[0] for row in rows(seconds)] if seconds else []
    assert estimate == [value for key, value in plan.get("estimate", {}).items() if key != "is_estimate"]

    decisions = page.section("Decisions")
    said = [[cell.text for cell in row[:3]] for row in rows(decisions.all("table")[0])] if plan["decisions"] else []
    assert said == [[one["what"], one["chosen"], one["because"]] for one in plan["decisions"]]


def _devices(text: str) -> int:
    return int(found[1]) if (found := re.search(r"\((\d+) alike\)", text)) else 1


def test_bars_are_as_long_as_their_bytes() -> None:
    made = compiled("flux1-dev-device-map")
    drawing = page_of(made).section("Devices").all("figure")[0]
    for device, row in zip(written(made)["devices"], drawing.all("g"), strict=True):
        boxes = {box.all("title")[0].text.partition(":")[0]: box for box in row.all("rect")}
        track = float(boxes.pop("free").attributes["width"] or "")
        assert track == pytest.approx(920, abs=0.1)
        expected = {name: part["weight_bytes"] for name, part in device["components"].items()}
        expected |= {"activations (estimate)": device["activation_bytes"], "reserve": device["reserve_bytes"]}
        assert set(boxes) == set(expected)
        for name, held in expected.items():
            wide = track * held / device["memory_bytes"]
            assert float(boxes[name].attributes["width"] or "") == pytest.approx(wide, abs=1.1)
            assert f"({held:,} bytes)" in boxes[name].all("title")[0].text
        assert row.all("line")[0].all("title")[0].text == "limit: 23.99 GiB"


def test_matrices_are_those_of_the_program() -> None:
    made = compiled("flux1-dev-tensor4")
    table = written(made)["program"]["components"]["transformer"]["tensor"]["parameters"]
    assert made.plan is not None
    assert made.program is not None
    shapes = {
        group.name: group.shape for group in made.plan.checked.subject.facts.model.components["transformer"].parameters
    }
    figures = [node for node in page_of(made).root.all("figure") if node.attributes.get("class") == "matrix"]
    ways = set()
    for figure in figures:
        name = figure.all("code")[0].text
        outputs, inputs = shapes[name]
        assert f"{outputs} x {inputs}" in figure.text
        bands = [title.text for title in figure.all("title")[1:]]
        if name not in table:
            assert bands == [f"{outputs} x {inputs}, whole on every rank"]
            ways.add("whole")
            continue
        dim, parts = table[name]["dim"], table[name]["parts"]
        ways.add((dim, len(parts)))
        assert len(bands) == 4 * len(parts)
        held = [0] * 4
        for band in bands:
            rank, first, last = map(int, re.match(r"rank (\d+): \w+ (\d+) to (\d+)", band).groups())
            held[rank] += last - first + 1
        assert held == [sum(part // 4 for part in parts)] * 4
        assert sum(held) == shapes[name][dim]
    assert ways == {"whole", (0, 1), (1, 1), (1, 2)}


def test_layers_add_up_to_less_than_the_component() -> None:
    made = compiled("flux1-dev-tensor4")
    assert made.plan is not None
    assert made.program is not None
    for layer in drawn_of(made.plan, made.program).layers:
        assert layer.held_bytes * layer.degree >= layer.whole_bytes
        assert layer.held_bytes == (layer.whole_bytes if layer.dim is None else layer.whole_bytes // 4)


def test_a_sequence_that_does_not_divide() -> None:
    section = page_of(compiled("qwen-image-ulysses-uneven")).section("Layout")
    assert [words.text for words in section.all("text") if "tokens" in words.text] == [
        "6889 image tokens, 1722 or 1723 on a rank",
        "up to 512 text tokens, 128 on a rank",
    ]
    assert [title.text for title in section.all("title") if title.text.startswith("rank ")][:4] == [
        "rank 0: 1723 tokens",
        "rank 1: 1722 tokens",
        "rank 2: 1722 tokens",
        "rank 3: 1722 tokens",
    ]
    assert Stretch("transformer", "image", 7, 3).shares == (3, 2, 2)


def test_the_mesh_has_every_rank_at_its_place() -> None:
    section = page_of(compiled("quickstart-data-tensor")).section("Mesh")
    assert [title.text for title in section.all("title")[1:]] == [
        f"rank {rank}: data {rank // 2}, tensor {rank % 2}; device {rank}; node 0" for rank in range(4)
    ]
    boxes = [(box.attributes["y"], box.attributes["x"]) for box in section.all("rect")]
    assert len({y for y, _ in boxes[:2]}) == 1
    assert boxes == sorted(set(boxes), key=lambda place: tuple(float(at or "") for at in place))


def test_blocks_lie_where_the_program_says() -> None:
    made = compiled("flux1-dev-device-map")
    blocks = written(made)["program"]["components"]["transformer"]["blocks"]
    drawn = [
        re.fullmatch(r"(\S+) on device (\d+): .*", title.text) for title in page_of(made).section("Layout").all("title")
    ]
    found = {match[1]: int(match[2]) for match in drawn if match}
    assert found == {name: device for name, device in blocks.items() if name.rpartition(".")[2].isdecimal()}


def test_what_is_no_block_is_said_with_its_device() -> None:
    text = page_of(compiled("quickstart-device-map-blocks")).section("Layout").text
    parts = "on device 0 context_embedder, time_text_embed, x_embedder; on device 1 norm_out, proj_out"
    assert f"What is no block: {parts}." in text


def test_texts_of_the_recipe_stay_texts(tmp_path: Path) -> None:
    text = (ROOT / "recipes" / "flux1-dev-tensor4.yaml").read_text(encoding="utf-8")
    text = text.replace('"a red fox in the snow"', json.dumps(f"{HOSTILE}\x1b[2J & {{{{ 7*7 }}}}"))
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    made = compile_recipe(tmp_path / "recipe.yaml")
    assert made.plan_json is not None, made.diagnostics
    plan = copy.deepcopy(made.plan_json)
    plan["name"] = HOSTILE
    plan["program"]["pipeline"]["id"] = HOSTILE
    plan["program"]["pipeline"]["class"] = HOSTILE
    plan["requires"] = {HOSTILE: HOSTILE}
    plan["components"][HOSTILE] = {**plan["components"]["vae"], "class": HOSTILE, "because": HOSTILE}
    for device in plan["devices"]:
        device["components"][HOSTILE] = {"weight_bytes": 10**9}
    plan["decisions"].append({"what": HOSTILE, "chosen": HOSTILE, "because": HOSTILE, "alternatives": [HOSTILE] * 9})
    plan["program"]["run"]["call"][HOSTILE] = HOSTILE
    for made_page in (report_html(plan, Drawn()), (made.bundle or {})["report.html"]):
        page = Page(made_page)
        names = {node.name for node in _every(page.root)}
        assert names.isdisjoint({"script", "img", "link", "iframe", "object", "base", "form"})
        for node in _every(page.root):
            assert not any(key.startswith("on") for key in node.attributes)
        assert "<img" not in made_page
        assert "\x1b" not in made_page
        assert HOSTILE in page.section("The job").text
    assert report_html(plan, Drawn()).count(HOSTILE) == 0


def _every(node: Node) -> list[Node]:
    return [node, *(found for child in node.children for found in _every(child))]


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    plan = written(compiled("quickstart"))
    plan["program"]["run"]["rows"][0]["prompt"] = "hf_" + "a" * 34
    assert "hf_aaaa" not in report_html(plan, Drawn())


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_one_file_that_needs_nothing(file: Path) -> None:
    """No script, nothing that is loaded from elsewhere, small, and the same bytes again."""
    made = compiled(file.stem)
    assert made.bundle is not None
    text = made.bundle["report.html"]
    again = compile_recipe(file).bundle
    assert again is not None
    assert again["report.html"] == text
    assert "<script" not in text
    assert re.findall(r"(?:https?:)?//\S+|@import|url\((?!#act\))", text) == []
    assert str(ROOT) not in text
    assert "\r" not in text
    assert len(text.encode()) < 60_000
    page = Page(text)
    assert page.root.all("html")[0].attributes["lang"] == "en"
    policy = {meta.attributes.get("http-equiv"): meta.attributes.get("content") for meta in page.root.all("meta")}
    assert policy["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert page.root.all("title")[0].text == f"{file.stem}: plan"
    for svg in page.root.all("svg"):
        if svg.attributes.get("aria-hidden") != "true":
            assert svg.attributes["role"] == "img"
            assert svg.children[0].name == "title"
            assert svg.children[0].text
    ids = [node.attributes["id"] for node in _every(page.root) if "id" in node.attributes]
    assert ids == ["act"]


def test_64_devices() -> None:
    made = compiled("flux1-dev-tensor4", "devices.per_node=64", "parallel={data: 2, context: {ring: 4, ulysses: 8}}")
    page = page_of(made)
    assert len(page.section("Devices").all("figure")[0].all("g")) == 1
    assert len(page.section("Mesh").all("rect")) == 64
    assert made.bundle is not None
    assert len(made.bundle["report.html"]) < 60_000
    plan = written(made)
    for device in plan["devices"]:
        device["weight_bytes"] += device["device"]
    page = Page(report_html(plan, Drawn()))
    section = page.section("Devices")
    assert len(section.all("figure")[0].all("g")) == 24
    assert "The 40 other devices are less full" in section.text
    assert len(rows(section.all("table")[0])) == 64
    assert len(page.section("Memory over the job").all("figure")) == 1


def test_a_component_that_comes_and_goes_is_drawn_where_it_is_called() -> None:
    """Under `offload` one component at a time is beside what stays."""
    plan = written(compiled("quickstart"))
    device = plan["devices"][0]
    sizes = {name: part["weight_bytes"] for name, part in device["components"].items()}
    stays = {"text_encoder": sizes["text_encoder"], "vae": sizes["vae"]}
    device["phases"] = [
        {
            "phase": phase,
            "weight_bytes": sum(stays.values()) + (sizes[name] if name not in stays else 0),
            "activation_bytes": 7,
            "components": sorted({*stays, name}),
            "called": name,
        }
        for phase, name in (("encode", "text_encoder_2"), ("denoise", "transformer"), ("decode", "vae"))
    ]
    device["components"] = {name: {"weight_bytes": sizes[name]} for name in (*stays, "transformer")}
    titles = [title.text for title in Page(report_html(plan, Drawn())).section("Memory over the job").all("title")]
    assert f"encode: text_encoder_2, weights: {format_bytes(sizes['text_encoder_2'])}" in titles
    assert f"denoise: transformer, weights: {format_bytes(sizes['transformer'])}" in titles
    assert not any(title.startswith("decode: transformer") for title in titles)
    assert f"decode: vae, weights: {format_bytes(sizes['vae'])}" in titles
