"""Input pictures: sizes from headers, what they change, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from dcompile.facts.pictures import MAX_PIXELS, PictureError, read_picture
from dcompile.facts.registry import known_models, load_model
from dcompile.facts.uses import as_pipeline, fitting, misfit, of_task, pipeline_classes, use_of
from dcompile.layout.settings import settings_of

KONTEXT = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-Kontext-dev}\ndevices: {gpu: h200-sxm, per_node: 2}\n"
SDXL = "version: 1\nmodel: {id: stabilityai/stable-diffusion-xl-base-1.0}\ndevices: {gpu: h200-sxm}\n"
EXIF = b"II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)
"""A TIFF header with one entry: the picture was taken with the camera on its side."""


def jpeg(width: int, height: int, exif: bytes = b"") -> bytes:
    """The start of a JPEG: everything before the coded picture."""
    app = b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif if exif else b""
    table = b"\xff\xdb" + struct.pack(">H", 67) + bytes(65)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8" + app + table + frame + b"\xff\xda"


def webp(kind: bytes, data: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(data) + 12) + b"WEBP" + kind + struct.pack("<I", len(data)) + data


PICTURES = {
    "plain.jpg": jpeg(640, 480),
    "turned.jpg": jpeg(480, 640, EXIF),
    "lossy.webp": webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)),
    "lossless.webp": webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
    "extended.webp": webp(b"VP8X", b"\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_size_is_in_the_header(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PICTURES[name])
    found = read_picture(tmp_path, name)
    assert (found.width_px, found.height_px) == (640, 480)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "neither PNG nor JPEG nor WebP"),
        (b"GIF89a", "neither"),
        (b"\x89PNG\r\n\x1a\n", "cut off or damaged"),
        (b"\xff\xd8\xff\xe0\0\x04", "cut off or damaged"),
        (jpeg(0, 480), "0x480"),
        (jpeg(60_000, 60_000), f"{MAX_PIXELS:,}"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "cut off or damaged"),
    ],
)
def test_what_is_no_picture(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(PictureError, match=said):
        read_picture(tmp_path, "a.png")


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    for name in (".", "none.png"):
        with pytest.raises(PictureError):
            read_picture(tmp_path, name)


def settings(found: Any) -> Any:
    return settings_of(found.recipe, found.facts)


def test_reference_tokens_of_kontext(compiled: Any, picture: Any) -> None:
    """`pipeline_flux_kontext.py:82`: 800x600 becomes 1184x880, the nearest aspect of 17."""
    run = f"run: {{prompts: [a red fox], images: [{picture()}]}}\n"
    found = compiled(KONTEXT + run + "parallel: {context: {ulysses: 2}}\n")
    assert found.is_valid
    assert settings(found).reference_tokens == (880 // 16) * (1184 // 16)
    assert settings(found).sequence_tokens == 4096 + 55 * 74
    alone = compiled(KONTEXT + "run: {prompts: [a red fox]}\nparallel: {context: {ulysses: 2}}\n")
    assert alone.is_valid
    assert settings(alone).sequence_tokens == 4096
    more, less = (one.plan.loads[0].phases[1] for one in (found, alone))
    assert (more.name, more.activation_bytes > 1.5 * less.activation_bytes) == ("denoise", True)


def test_an_odd_number_of_reference_tokens_is_refused(compiled: Any, picture: Any) -> None:
    """1392x752 are 47 x 87 tokens."""
    run = f"run: {{prompts: [a red fox], images: [{picture(1392, 752)}]}}\n"
    found = compiled(KONTEXT + run + "parallel: {context: {ulysses: 2}}\n").diagnostics
    assert [one.code for one in found] == ["DC402"]
    assert "4089 of input pictures" in found[0].message


def test_a_picture_gives_its_size_and_strength_its_steps(compiled: Any, picture: Any) -> None:
    run = f"run: {{task: image-to-image, prompts: [a red fox], images: [{picture(1001, 603)}], steps: 30}}\n"
    found = compiled(SDXL + run)
    assert found.is_valid
    assert (settings(found).width_px, settings(found).height_px) == (1000, 600)
    assert settings(found).run_steps == 9  # 0.3 is the default
    program = found.plan_json["program"]
    assert program["pipeline"]["class"] == "StableDiffusionXLImg2ImgPipeline"
    assert "height" not in program["run"]["call"]
    assert program["run"]["rows"][0]["images"] == [{"path": "fox.png", "height": 603, "width": 1001}]


def test_rows_have_pictures_of_their_own(compiled: Any, picture: Any) -> None:
    rows = f'{{"prompt": "a", "image": "{picture(512, 512, "a.png")}"}}\n{{"prompt": "b", "image": ["{picture()}"]}}\n'
    found = compiled(SDXL + "run: {task: image-to-image, prompts: rows.jsonl}\n", {"rows.jsonl": rows})
    assert found.is_valid
    assert [row["images"][0]["path"] for row in found.plan_json["program"]["run"]["rows"]] == ["a.png", "fox.png"]
    assert settings(found).height_px == 512
    largest = compiled(SDXL + "run: {task: image-to-image, prompts: [a], images: [fox.png]}\n")
    loads = [max(load.activation_bytes for load in one.plan.loads) for one in (found, largest)]
    assert loads[0] == loads[1], "the largest picture decides whether the job fits"


def test_a_row_without_a_picture(compiled: Any, picture: Any) -> None:
    rows = f'{{"prompt": "a", "image": "{picture()}"}}\n{{"prompt": "b"}}\n'
    found = compiled(SDXL + "run: {task: image-to-image, prompts: rows.jsonl}\n", {"rows.jsonl": rows}).diagnostics
    assert [(one.code, "picture 1" in one.message) for one in found] == [("DC330", True)]


def test_a_missing_picture_of_a_row_is_one_finding(compiled: Any) -> None:
    rows = "prompt,image\na fox,none.png\n"
    found = compiled(SDXL + "run: {task: image-to-image, prompts: rows.csv}\n", {"rows.csv": rows}).diagnostics
    assert [(one.code, one.path) for one in found] == [("DC360", ("run", "prompts"))]


def test_what_a_task_means() -> None:
    flux, wan = load_model("black-forest-labs/FLUX.1-dev"), load_model("Wan-AI/Wan2.1-T2V-14B-Diffusers")
    assert of_task(flux, "image-to-image") == "FluxImg2ImgPipeline"
    assert of_task(flux, "text-to-image") == "FluxPipeline"
    assert of_task(flux, "image-to-video") is None
    assert of_task(wan, "image-to-video") is None
    assert of_task(load_model("Wan-AI/Wan2.2-TI2V-5B-Diffusers"), "image-to-video") == "WanImageToVideoPipeline"


def test_settings_that_another_class_does_not_know() -> None:
    refiner = load_model("stabilityai/stable-diffusion-xl-refiner-1.0")
    assert "requires_aesthetics_score" in str(misfit(refiner, "StableDiffusionXLPipeline"))
    inpainting = load_model("diffusers/stable-diffusion-xl-1.0-inpainting-0.1")
    assert "takes 9" in str(misfit(inpainting, "StableDiffusionXLPipeline"))


def test_every_fitting_class_has_facts() -> None:
    for name in known_models():
        model = load_model(name)
        assert misfit(model, model.pipeline) is None
        for other in fitting(model):
            facts = as_pipeline(model, other)
            assert facts.call_args
            assert facts.family == model.family
            assert set(facts.denoisers) == set(model.denoisers)


def test_every_class_says_what_it_takes() -> None:
    uses = {name: use_of(name) for name in pipeline_classes()}
    assert {use.pictures for use in uses.values() if use is not None} == {None, "one", "several"}
    several = {name for name, use in uses.items() if use is not None and use.pictures == "several"}
    assert {"Flux2Pipeline", "QwenImageEditPlusPipeline"} <= several
