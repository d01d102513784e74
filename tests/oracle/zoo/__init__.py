"""Tiny pipelines with random weights, one file a family. Torch is imported here, and nowhere in the checker."""

from __future__ import annotations

from pathlib import Path

from . import lora
from .auraflow import AURAFLOW
from .chroma import CHROMA
from .chronoedit import CHRONOEDIT
from .cogvideox import COGVIDEOX, COGVIDEOX_TABLE
from .cogview4 import COGVIEW4
from .family import Family
from .flux import FLUX
from .flux2 import FLUX2
from .helios import HELIOS
from .hidream import HIDREAM
from .hunyuan_video import HUNYUAN_VIDEO
from .hunyuandit import HUNYUANDIT
from .kandinsky5 import KANDINSKY5
from .kandinsky5_video import KANDINSKY5_VIDEO
from .klein import KLEIN
from .ltx import LTX, LTX_CONDITION
from .ltx2 import LTX2
from .lumina2 import LUMINA2
from .mochi import MOCHI
from .parts import PROMPTS, draw
from .pixart import PIXART
from .qwen_image import QWEN_IMAGE
from .sana import SANA
from .sd import SD, SD_TWO
from .sd3 import SD3
from .sdxl import SDXL
from .wan import WAN, WAN_EXPANDED, WAN_SEEING, WAN_TWO, WAN_VACE
from .z_image import Z_IMAGE

__all__ = ["FAMILIES", "FIRST", "PROMPTS", "Family", "save_all"]

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(FLUX, FLUX2, QWEN_IMAGE, WAN, WAN_TWO, LTX, SD3, SDXL),
        *(CHROMA, Z_IMAGE, SANA, PIXART, LUMINA2, AURAFLOW, COGVIEW4, HIDREAM, HUNYUANDIT, KANDINSKY5, SD, SD_TWO),
        *(CHRONOEDIT, HELIOS, HUNYUAN_VIDEO, COGVIDEOX, COGVIDEOX_TABLE, MOCHI),
        KLEIN,
        *(LTX2, LTX_CONDITION, WAN_SEEING, WAN_VACE, WAN_EXPANDED, KANDINSKY5_VIDEO),
    )
}
FIRST = ("flux", "flux2", "qwen-image", "wan", "wan-two", "ltx", "sd3", "sdxl")
"""Families of which the numbered recipes are drawn where nothing else is asked for, so that a number's recipe stays."""


def save_all(root: Path, names: tuple[str, ...] = tuple(FAMILIES)) -> None:
    """Saves the pipelines that are not there yet as `root/<family>`, and adapters for them as `root/<family>-lora`."""
    draw(root)
    for name in names:
        folder = root / name
        if not (folder / "model_index.json").is_file():
            FAMILIES[name].save(folder)
        if FAMILIES[name].lora_targets and not (root / f"{name}-lora").is_dir():
            lora.save(root / f"{name}-lora", folder, FAMILIES[name])
