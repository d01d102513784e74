"""`report.html` in a real Chromium, light and dark: it is not blank, and its colours are those of the scheme."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from dcompile.driver import compile_recipe
from PIL import Image

RECIPES = Path(__file__).parents[2] / "recipes"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1100, 1800
SCHEMES = {"light": ("1", (0x2A, 0x78, 0xD6)), "dark": ("0", (0x39, 0x87, 0xE5))}
"""Chromium's number of a colour scheme, and the colour of the first component in it."""


def browser() -> str:
    found = os.environ.get("DCOMPILE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: neither $DCOMPILE_CHROMIUM nor one of " + ", ".join(NAMES) + " on PATH")
    return found


def screenshot(page: Path, scheme: str, folder: Path) -> Image.Image:
    picture = folder / f"{scheme}.png"
    command = [
        browser(),
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
        f"--user-data-dir={folder / scheme}",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme][0]}",
        f"--screenshot={picture}",
        f"--window-size={WIDTH},{HEIGHT}",
        page.as_uri(),
    ]
    # Chromium starts processes of its own: they are one group, which ends as a whole.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=120)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert picture.exists(), said.decode(errors="replace")[-2000:]
    return Image.open(picture).convert("RGB")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["flux1-dev-tensor4", "quickstart-data-context"])
def test_the_page_is_there_in_light_and_dark(recipe: str, tmp_path: Path) -> None:
    files = compile_recipe(RECIPES / f"{recipe}.yaml").bundle
    assert files is not None
    page = tmp_path / "report.html"
    page.write_text(files["report.html"], encoding="utf-8")
    brightness = {}
    for scheme, (_, colour) in SCHEMES.items():
        picture = screenshot(page, scheme, tmp_path)
        assert picture.size == (WIDTH, HEIGHT)
        pixels = Counter(picture.get_flattened_data() if hasattr(picture, "get_flattened_data") else picture.getdata())
        assert pixels[colour] > 5_000, f"{scheme}: the bar of the first component is missing"
        assert len(pixels) > 50
        brightness[scheme] = sum(sum(pixel) * count for pixel, count in pixels.items()) / (3 * WIDTH * HEIGHT)
    assert brightness["light"] > 200
    assert brightness["dark"] < 60
