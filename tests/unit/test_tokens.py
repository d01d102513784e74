"""Token counts of the families: figures compared upstream with the shapes of the real pipelines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from dcompile.driver import compile_recipe
from dcompile.facts.registry import load_model
from dcompile.layout.bins import binned_size, is_binned, is_resized
from dcompile.layout.clips import Chunk, chunk_count, chunk_of, clip_frames, fixed_frames, sequence_lengths
from dcompile.layout.pictures import chooses_size, made_size
from dcompile.layout.tokens import image_tokens, latent_frames, reference_tokens

HELIOS, CHRONOEDIT = "BestWishYsh/Helios-Base", "nvidia/ChronoEdit-14B-Diffusers"
KONTEXT = "black-forest-labs/FLUX.1-Kontext-dev"
FLUX2 = "black-forest-labs/FLUX.2-dev"


@pytest.mark.parametrize(
    ("model", "height", "width", "frames", "count"),
    [
        ("black-forest-labs/FLUX.1-dev", 1024, 1024, None, 4096),
        ("black-forest-labs/FLUX.1-dev", 768, 1360, None, 4080),
        ("Qwen/Qwen-Image", 1328, 1328, None, 6889),
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 480, 832, 81, 32_760),
        ("Wan-AI/Wan2.2-T2V-A14B-Diffusers", 720, 1280, 81, 75_600),
        ("Wan-AI/Wan2.2-TI2V-5B-Diffusers", 704, 1280, 121, 27_280),
        ("Lightricks/LTX-Video", 480, 704, 161, 6930),
        ("Lightricks/LTX-Video", 512, 768, 121, 6144),
        ("Lightricks/LTX-2", 512, 768, 121, 6144),
        ("HiDream-ai/HiDream-I1-Full", 1024, 1024, None, 4096),
        ("fal/AuraFlow-v0.3", 1024, 1536, None, 6144),
        ("zai-org/CogView4-6B", 1024, 1024, None, 4096),
        ("kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers", 512, 768, 121, 31 * 32 * 48),
        ("kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", 768, 1280, None, 48 * 80),
        ("hunyuanvideo-community/HunyuanVideo", 720, 1280, 129, 33 * 45 * 80),
        ("zai-org/CogVideoX-5b", 480, 720, 49, 13 * 30 * 45),
        ("genmo/mochi-1-preview", 480, 848, 163, 28 * 30 * 53),
        ("Efficient-Large-Model/Sana_1600M_1024px_diffusers", 1024, 1024, None, 1024),
        ("stabilityai/stable-diffusion-3.5-large", 1024, 1024, None, 4096),
    ],
)
def test_image_tokens(model: str, height: int, width: int, frames: int | None, count: int) -> None:
    assert image_tokens(load_model(model).tokens, height, width, frames) == count


def test_wan_rounds_a_length_that_is_no_multiple_plus_one() -> None:
    tokens = load_model("Wan-AI/Wan2.1-T2V-14B-Diffusers").tokens
    for frames in range(1, 200):
        rounded = frames if frames % 4 == 1 else frames // 4 * 4 + 1
        assert latent_frames(tokens, frames) == (max(rounded, 1) - 1) // 4 + 1
    assert latent_frames(load_model("Lightricks/LTX-Video").tokens, 160) == 20


def test_pairs_of_latent_frames_are_padded() -> None:
    tokens = {"spatial": 16, "frames": 4, "frames_patch": 2}
    assert [latent_frames(tokens, frames) for frames in (1, 5, 81, 85)] == [1, 1, 11, 11]


def test_kontext_reference_is_snapped() -> None:
    facts = load_model(KONTEXT)
    assert facts.conditions is not None
    counts = {
        reference_tokens(facts.conditions, facts.tokens, [(height, width)])
        for height, width in facts.conditions["sizes"]
    }
    assert counts == {4116, 4042, 4095, 4089, 4150, 4056, 4070, 4071, 4096}
    assert reference_tokens(facts.conditions, facts.tokens, [(3000, 3000)]) == 4096
    assert reference_tokens(facts.conditions, facts.tokens, []) == 0


def test_flux2_references_are_shrunk() -> None:
    facts = load_model(FLUX2)
    assert reference_tokens(facts.conditions, facts.tokens, [(512, 768), (500, 500)]) == 32 * 48 + 31 * 31
    assert reference_tokens(facts.conditions, facts.tokens, [(2048, 2048)]) == 4096


def test_qwen_edit_reference_has_one_area() -> None:
    facts = load_model("Qwen/Qwen-Image-Edit-2509")
    assert reference_tokens(facts.conditions, facts.tokens, [(512, 512), (1080, 1920)]) == 4096 + 48 * 86
    plain = load_model("Qwen/Qwen-Image")
    assert reference_tokens(plain.conditions, plain.tokens, [(512, 512)]) == 0


def test_guidance_of_the_families() -> None:
    expected = {
        "black-forest-labs/FLUX.1-dev": (True, "sequential"),
        "black-forest-labs/FLUX.1-schnell": (False, "sequential"),
        FLUX2: (True, None),
        "black-forest-labs/FLUX.2-klein-4B": (False, "sequential"),
        "Qwen/Qwen-Image": (False, "sequential"),
        "Wan-AI/Wan2.2-T2V-A14B-Diffusers": (False, "sequential"),
        "stabilityai/stable-diffusion-3.5-large": (False, "batched"),
        "stabilityai/stable-diffusion-xl-base-1.0": (False, "batched"),
        "hunyuanvideo-community/HunyuanVideo": (True, "sequential"),
        "Lightricks/LTX-Video": (False, "batched"),
        "Tongyi-MAI/Z-Image": (False, "batched"),
        "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS": (False, "batched"),
        "Efficient-Large-Model/Sana_1600M_1024px_diffusers": (False, "batched"),
        "zai-org/CogVideoX-5b": (False, "batched"),
        "genmo/mochi-1-preview": (False, "batched"),
        "lodestones/Chroma1-HD": (False, "sequential"),
        "Alpha-VLLM/Lumina-Image-2.0": (False, "sequential"),
    }
    for name, (embedded, branches) in expected.items():
        above = {"above": 0.0} if name == "Tongyi-MAI/Z-Image" else {}
        assert load_model(name).guidance == {"embedded": embedded, "branches": branches, **above}, name


@pytest.mark.parametrize(
    ("frames", "chunks", "made"), [(1, 1, 33), (33, 1, 33), (97, 3, 97), (100, 4, 129), (132, 4, 129)]
)
def test_helios_makes_whole_chunks(frames: int, chunks: int, made: int) -> None:
    """9 latent frames are 33; a length that is asked for again gives the same clip."""
    model = load_model(HELIOS)
    chunk = chunk_of(model, {})
    assert chunk == Chunk(9, (16, 2, 2))
    assert chunk_count(chunk, model.tokens, frames) == chunks
    assert clip_frames(model, {}, frames) == made
    assert clip_frames(model, {}, made) == made


def test_helios_sees_its_history_coarser_the_older_it_is() -> None:
    """At 384x640, 24 x 40 tokens a frame: the last frame and the first of all, 1 x 12 x 20 and 4 x 6 x 10."""
    model = load_model(HELIOS)
    own, history = 9 * 24 * 40, 2 * 24 * 40 + 12 * 20 + 4 * 6 * 10
    assert sequence_lengths(model, {}, 384, 640, 129, 50) == (own + history, own)
    shorter = {"num_latent_frames_per_chunk": 5, "history_sizes": [1, 2, 8]}
    own, history = 5 * 24 * 40, 2 * 24 * 40 + 12 * 20 + 2 * 6 * 10
    assert sequence_lengths(model, shorter, 384, 640, 129, 50) == (own + history, own)
    assert chunk_of(model, {"history_sizes": [1], "num_latent_frames_per_chunk": "9"}) == chunk_of(model, {})


def test_chronoedit_makes_five_frames_unless_it_reasons() -> None:
    model = load_model(CHRONOEDIT)
    assert (fixed_frames(model, {}), clip_frames(model, {}, 81)) == (5, 5)
    reasons = {"enable_temporal_reasoning": True, "num_temporal_reasoning_steps": 10}
    assert (fixed_frames(model, reasons), clip_frames(model, reasons, 29)) == (None, 29)
    assert sequence_lengths(model, {}, 480, 832, 5, 50) == (2 * 30 * 52,)
    assert sequence_lengths(model, reasons, 480, 832, 29, 50) == (8 * 30 * 52, 2 * 30 * 52)
    assert sequence_lengths(model, reasons, 480, 832, 29, 10) == (8 * 30 * 52,)
    assert chunk_of(model, {}) is None


def test_hidream_fills_up_a_picture_that_is_no_square() -> None:
    model = load_model("HiDream-ai/HiDream-I1-Full")
    assert sequence_lengths(model, {}, 1024, 1024, None, 50) == (4096,)
    assert sequence_lengths(model, {}, 768, 1344, None, 50) == (4096,)
    assert sequence_lengths(model, {}, 768, 768, None, 50) == (2304,)


@pytest.mark.parametrize(
    ("model", "asked", "made"),
    [
        ("HiDream-ai/HiDream-I1-Full", (2048, 2048), (1024, 1024)),
        ("HiDream-ai/HiDream-I1-Full", (768, 1360), (768, 1360)),
        ("HiDream-ai/HiDream-I1-Full", (500, 1000), (720, 1440)),
        ("kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", (896, 1152), (896, 1152)),
        ("kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", (512, 512), (1024, 1024)),
        ("kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", (1000, 500), (1408, 640)),
        ("zai-org/CogView4-6B", (512, 768), (512, 768)),
    ],
)
def test_pipelines_that_choose_the_size(model: str, asked: tuple[int, int], made: tuple[int, int]) -> None:
    """Height and width."""
    facts = load_model(model)
    assert made_size(facts, {}, *asked) == made
    assert chooses_size(facts, {}) == ("CogView4" not in model)


PIXART = "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS"
SIZES = ((1024, 1024), (512, 512), (100, 3000), (832, 1216), (1000, 999), (2048, 1024), (333, 777))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes_of_pipelines_that_choose_the_nearest_of_their_own(size: tuple[int, int]) -> None:
    """As the libraries' own functions choose them."""
    image_processor = pytest.importorskip("diffusers.image_processor", reason="needs the extra `run`")
    alpha = import_module("diffusers.pipelines.pixart_alpha.pipeline_pixart_alpha")
    hunyuandit = import_module("diffusers.pipelines.hunyuandit.pipeline_hunyuandit")
    classify = image_processor.PixArtImageProcessor.classify_height_width_bin
    for name in (PIXART, "Efficient-Large-Model/Sana_1600M_1024px_diffusers"):
        model = load_model(name)
        assert is_resized(model, {})
        assert not is_binned(model, {"use_resolution_binning": False})
        assert binned_size(model, *size) == classify(*size, ratios=alpha.ASPECT_RATIO_1024_BIN)
    height, width = (side // 16 * 16 for side in size)
    expected = (height, width)
    if expected not in hunyuandit.SUPPORTED_SHAPE:
        expected = tuple(reversed(hunyuandit.map_to_standard_shapes(width, height)))
    assert binned_size(load_model("Tencent-Hunyuan/HunyuanDiT-Diffusers"), *size) == tuple(map(int, expected))


@pytest.mark.parametrize(
    ("model", "run", "codes", "tokens"),
    [
        ("PixArt-alpha/PixArt-Sigma-XL-2-1024-MS", "height: 300, width: 301", (), 4096),
        (
            "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
            "height: 301, args: {use_resolution_binning: false}",
            ("DC308",),
            None,
        ),
        ("Efficient-Large-Model/Sana_1600M_1024px_diffusers", "height: 500, width: 500", (), 1024),
        ("Tencent-Hunyuan/HunyuanDiT-Diffusers", "height: 512, width: 512", ("DC308",), 4096),
    ],
)
def test_a_job_is_counted_at_the_size_that_is_drawn(
    model: str, run: str, codes: tuple[str, ...], tokens: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(f"version: 1\nmodel: {{id: {model}}}\ndevices: {{gpu: l40s}}\nrun: {{prompts: [a fox], {run}}}\n")
    done = compile_recipe(file)
    assert tuple(found.code for found in done.diagnostics) == codes
    if tokens is not None:
        assert done.plan is not None
        assert done.plan.checked.subject.settings.sequence_tokens == tokens
