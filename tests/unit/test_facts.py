"""The generated facts, and facts read from a folder without torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from dcompile.facts.errors import FactsError
from dcompile.facts.folder import facts_of_folder, known_classes
from dcompile.facts.grouping import group_parameters, stacked_blocks
from dcompile.facts.registry import HARDWARE, MODELS, PACKAGE, known_hardware, known_models, load_hardware, load_model
from dcompile.layout.clips import frames_per_second
from dcompile.layout.shard import count_parameters

WAN_I2V = "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers"
PUBLISHED = PACKAGE / "facts" / "published"
# Parameters that the authors or the hub's counts give, for configurations that could not be compared byte for byte.
PARAMETERS = {
    ("black-forest-labs/FLUX.1-dev", "transformer"): 11_901_408_320,
    ("black-forest-labs/FLUX.1-dev", "text_encoder"): 123_060_480,
    ("black-forest-labs/FLUX.1-dev", "text_encoder_2"): 4_762_310_656,
    ("black-forest-labs/FLUX.1-dev", "vae"): 83_819_683,
    ("black-forest-labs/FLUX.2-dev", "text_encoder"): 24_011_361_280,
    ("black-forest-labs/FLUX.2-klein-4B", "text_encoder"): 4_022_468_096,
    ("black-forest-labs/FLUX.2-klein-9B", "text_encoder"): 8_190_735_360,
    ("Efficient-Large-Model/Sana_1600M_1024px_diffusers", "text_encoder"): 2_614_341_888,
    ("Lightricks/LTX-2", "text_encoder"): 12_187_325_040,
    ("HiDream-ai/HiDream-I1-Full", "text_encoder_4"): 8_030_261_248,
    ("PixArt-alpha/PixArt-Sigma-XL-2-1024-MS", "transformer"): 610_856_096,
    ("Qwen/Qwen-Image", "text_encoder"): 8_292_166_656,
    ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "transformer"): 1_418_996_800,
    ("hunyuanvideo-community/HunyuanVideo", "transformer"): 12_821_012_544,
    ("stable-diffusion-v1-5/stable-diffusion-v1-5", "unet"): 859_520_964,
    ("stabilityai/stable-diffusion-2-1", "unet"): 865_910_724,
    ("stabilityai/stable-diffusion-xl-base-1.0", "unet"): 2_567_463_684,
    ("stabilityai/stable-diffusion-xl-base-1.0", "text_encoder_2"): 694_659_840,
    ("stabilityai/stable-diffusion-xl-base-1.0", "vae"): 83_653_863,
    ("stabilityai/stable-diffusion-3-medium-diffusers", "transformer"): 2_028_328_000,
    ("zai-org/CogVideoX-5b", "transformer"): 5_570_283_072,
}
# What the authors say of models whose files could not be compared, in billions.
ANNOUNCED = {
    ("BestWishYsh/Helios-Base", "transformer"): "14",
    ("Lightricks/LTX-2", "transformer"): "19",
    ("HiDream-ai/HiDream-I1-Full", "transformer"): "17",
    ("fal/AuraFlow-v0.3", "transformer"): "6.8",
    ("kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", "transformer"): "6",
    ("kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers", "transformer"): "2",
    ("zai-org/CogView4-6B", "transformer"): "6",
}
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}


def test_bytes_are_those_of_the_published_weight_files() -> None:
    checked = 0
    published = {model["id"]: model for model in (json.loads(file.read_text()) for file in PUBLISHED.glob("*.json"))}
    for model_id, model in published.items():
        for name, part in model["components"].items():
            if "weight_bytes" in part:
                facts = load_model(model_id).components[name]
                buffers = sum(prod(group.shape) * group.repeat for group in facts.buffers)
                held = (count_parameters(facts) + buffers) * WIDTHS[str(facts.dtype)]
                assert held == part["weight_bytes"], (model_id, name)
                checked += 1
    assert checked >= 15


def test_components_that_models_share_are_equal() -> None:
    old, new = (load_model(f"Wan-AI/Wan2.{name}-Diffusers") for name in ("1-T2V-14B", "2-T2V-A14B"))
    assert old.components["vae"] == new.components["vae"]
    flux, kontext = (load_model(f"black-forest-labs/FLUX.1-{name}") for name in ("dev", "Kontext-dev"))
    assert flux.components["text_encoder_2"] == kontext.components["text_encoder_2"]


@pytest.mark.parametrize(("model", "component"), PARAMETERS)
def test_parameters_are_exact(model: str, component: str) -> None:
    assert count_parameters(load_model(model).components[component]) == PARAMETERS[model, component]


@pytest.mark.parametrize(("model", "component"), ANNOUNCED)
def test_parameters_are_as_many_as_announced(model: str, component: str) -> None:
    said = ANNOUNCED[model, component]
    count = count_parameters(load_model(model).components[component])
    digits = 10 ** len(said.partition(".")[2])
    # AuraFlow's 6.86 stand for 6.8, Helios' 14.31 for 14, LTX-2's 18.88 for 19.
    assert int(float(said) * digits) in (round(count / 1e9 * digits), int(count / 1e9 * digits))


def test_chronoedit_has_the_weights_of_wan_image_to_video() -> None:
    """Its rotary embedding alone differs, which has none."""
    edit, wan = (load_model(name).components for name in ("nvidia/ChronoEdit-14B-Diffusers", WAN_I2V))
    assert edit["transformer"].parameters == wan["transformer"].parameters
    assert edit["vae"] == wan["vae"]


def test_every_known_model_is_whole() -> None:
    for name in known_models():
        model = load_model(name)
        assert model.id == name
        assert set(model.denoisers) <= set(model.components)
        assert set(model.tokens) - {"floors"} == {
            "spatial",
            "frames",
            "frames_patch",
            "rounds_frames",
            "multiple",
            "text",
            "text_default",
            "text_limit",
        }
        assert model.denoisers
        assert model.family != "other"
        assert "prompt" in model.call_args
        assert {"height", "width", "frames", "steps", "guidance"} <= set(model.defaults)
        for component in model.components.values():
            assert component.parameters
            names = [group.name for group in component.parameters]
            assert len(names) == len(set(names))
            assert all((group.repeat > 1) == (group.name.count("*") == 1) for group in component.parameters)


def test_model_files_are_short_and_indexed() -> None:
    for name in known_models():
        file = MODELS / f"{name.replace('/', '--')}.json"
        assert file.stat().st_size < 60_000, file
        assert b"\r" not in file.read_bytes()


def test_capabilities() -> None:
    flux = load_model("black-forest-labs/FLUX.1-dev").components["transformer"]
    assert flux.heads == 24
    assert flux.blocks == (("transformer_blocks", 19), ("single_transformer_blocks", 38))
    assert flux.context_plan
    assert flux.context_splits_text
    assert flux.config["guidance_embeds"] is True
    wan = load_model("Wan-AI/Wan2.2-T2V-A14B-Diffusers")
    assert wan.denoisers == ("transformer", "transformer_2")
    assert wan.components["transformer"].context_plan
    assert not wan.components["transformer"].context_splits_text
    assert not wan.components["transformer"].tensor_plan
    assert wan.pipeline_config == {"boundary_ratio": 0.875}
    unet = load_model("stabilityai/stable-diffusion-xl-base-1.0").components["unet"]
    assert not unet.context_plan
    assert unet.heads is None


def test_call_arguments_and_defaults() -> None:
    flux = load_model("black-forest-labs/FLUX.1-dev")
    assert flux.call_args["max_sequence_length"] == 512
    assert flux.call_args["height"] is None
    assert flux.defaults["steps"] == flux.call_args["num_inference_steps"] == 28
    wan = load_model("Wan-AI/Wan2.1-T2V-1.3B-Diffusers")
    assert [wan.defaults[key] for key in ("height", "width", "frames")] == [480, 832, 81]


def test_what_models_are_published_with_has_a_source() -> None:
    names = {"steps", "least_steps", "guidance", "true_cfg", "guidance_scale_2", "height", "width", "frames", "fps"}
    for model in known_models():
        facts = load_model(model)
        assert set(facts.advised) <= {*names, "distilled", "source"}
        assert bool(facts.advised) == bool(facts.advised.get("source")), model
        own = {key: value for key, value in facts.advised.items() if key in facts.defaults}
        assert not own or own != {key: facts.defaults[key] for key in own} or len(facts.advised) > len(own) + 1, model
        assert not facts.advised.get("distilled") or facts.advised["least_steps"] <= facts.advised["steps"] < 10
        assert "guidance_scale_2" not in facts.advised or "boundary_ratio" in facts.pipeline_config


@pytest.mark.parametrize(
    ("model", "fps"),
    [
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 16),
        ("Wan-AI/Wan2.2-T2V-A14B-Diffusers", 16),
        ("Wan-AI/Wan2.2-TI2V-5B-Diffusers", 24),
        ("Wan-AI/Wan2.2-Animate-14B-Diffusers", 30),
        ("Lightricks/LTX-Video", 25),
        ("Lightricks/LTX-2", 24),
        ("zai-org/CogVideoX-5b", 8),
        ("hunyuanvideo-community/HunyuanVideo", 24),
        ("genmo/mochi-1-preview", 30),
        ("kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers", 24),
        ("BestWishYsh/Helios-Base", 24),
        ("nvidia/ChronoEdit-14B-Diffusers", 16),
    ],
)
def test_clips_are_played_as_their_models_make_them(model: str, fps: int) -> None:
    assert frames_per_second(load_model(model), {})[0] == fps


def test_every_model_of_clips_says_how_they_are_played() -> None:
    for model in map(load_model, known_models()):
        if model.tokens["frames"] or "num_frames" in model.call_args:
            assert frames_per_second(model, {})[1] != frames_per_second(replace(model, advised={}, defaults={}), {})[1]


def test_a_rate_that_the_call_is_told_is_the_rate_of_the_file() -> None:
    assert frames_per_second(load_model("Lightricks/LTX-Video"), {"frame_rate": 30})[0] == 30
    assert frames_per_second(load_model("Lightricks/LTX-Video"), {"frame_rate": "fast"})[0] == 25
    assert frames_per_second(load_model("zai-org/CogVideoX-2b"), {"frame_rate": 30})[0] == 8


def test_hardware_table() -> None:
    assert {"h100-sxm-80gb", "a100-sxm-40gb", "h200-sxm", "l40s", "a10g", "rtx-4090", "mi300x"} <= set(known_hardware())
    assert load_hardware("h100-sxm-80gb").memory_bytes == 81_559 * 2**20
    for name in known_hardware():
        device = load_hardware(name)
        assert device.kind == "cuda"
        assert re.fullmatch(r"[a-z0-9-]+", name)
        named = re.search(r"(\d+)gb$", name)
        if named:
            assert 0.95 < device.memory_bytes / (int(named[1]) * 2**30) <= 1
        for number in ("memory_bytes", "flops_per_second", "memory_bytes_per_second", "link_bytes_per_second"):
            assert getattr(device, number) > 0
            assert f"{number}: " in device.source
        # A tensor core multiplies in TF32 at half the rate of bfloat16, to what sheets round.
        wide, tensor = device.float32_flops_per_second, device.tf32_flops_per_second
        assert wide is not None
        assert wide < device.flops_per_second
        assert tensor is None or device.flops_per_second / tensor == pytest.approx(2, rel=0.02)
        assert (tensor is None) == name.startswith("mi")
        assert tensor is None or tensor >= wide


def test_data_files_are_canonical() -> None:
    for file in (*MODELS.glob("*.json"), HARDWARE):
        text = file.read_bytes().decode("utf-8")
        assert text.endswith("}\n")
        assert "\r" not in text
        assert "\t" not in text


def test_registry_and_folder_import_no_torch() -> None:
    code = (
        "import sys, dcompile.facts.folder as f, dcompile.layout.shard; f.facts_of_folder; "
        "sys.exit(bool({'torch', 'diffusers', 'transformers', 'jsonschema'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unequal_blocks_stay_apart() -> None:
    shapes = {"a.0.w": (2, 2), "a.1.w": (2, 2), "a.2.w": (2, 3), "b.0.w": (1,), "b.1.w": (1,), "b.3.w": (1,)}
    groups = group_parameters(shapes)
    assert [group.name for group in groups] == list(shapes)
    assert stacked_blocks(shapes) == (("a", 3),)


def test_nested_stacks_take_the_longer_one() -> None:
    shapes = {f"e.{i}.l.{j}.w": (4,) for i in range(5) for j in range(2)}
    groups = group_parameters(shapes)
    assert [(group.name, group.repeat) for group in groups] == [("e.*.l.0.w", 5), ("e.*.l.1.w", 5)]


def write_weights(path: Path, shapes: dict[str, tuple[int, ...]], dtype: str = "F32") -> None:
    """A safetensors file of zeros, without the library."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    encoded = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + bytes(end))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Flux pipeline of a few numbers: 2 heads of 4, an autoencoder that halves once."""
    index = {
        "_class_name": "FluxPipeline",
        "_diffusers_version": "0.42.1",
        "image_encoder": [None, None],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    configs = {
        "text_encoder_2": {"num_heads": 2},
        "transformer": {"_class_name": "FluxTransformer2DModel", "num_attention_heads": 2, "attention_head_dim": 4},
        "vae": {"block_out_channels": [4, 8]},
    }
    for name, config in configs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "scheduler_config.json").write_text('{"_class_name": "x", "shift": 1.0}')
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "vocab.json").write_text("{}")
    weights = {f"single_transformer_blocks.{i}.proj_out.weight": (8, 40) for i in range(2)}
    first, second = (f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2))
    write_weights(tmp_path / "transformer" / first, weights)
    write_weights(tmp_path / "transformer" / second, {"x_embedder.weight": (8, 4)})
    weight_map = {**dict.fromkeys(weights, first), "x_embedder.weight": second}
    index_file = tmp_path / "transformer" / "diffusion_pytorch_model.safetensors.index.json"
    index_file.write_text(json.dumps({"weight_map": weight_map}))
    write_weights(
        tmp_path / "vae" / "diffusion_pytorch_model.safetensors", {"decoder.w": (3,), "bn.running_mean": (3,)}
    )
    shared = {"shared.weight": (10, 8), "encoder.embed_tokens.weight": (10, 8)}
    write_weights(tmp_path / "text_encoder_2" / "model.safetensors", shared)
    return tmp_path


def test_folder(folder: Path) -> None:
    model = facts_of_folder(folder)
    assert (model.pipeline, model.family, model.denoisers) == ("FluxPipeline", "flux", ("transformer",))
    assert set(model.components) == {"text_encoder_2", "transformer", "vae"}
    transformer = model.components["transformer"]
    assert transformer.heads == 2
    assert transformer.dtype == "float32"
    assert transformer.blocks == (("single_transformer_blocks", 2),)
    assert {style.module: style.blocks for style in transformer.tensor_plan}[
        "single_transformer_blocks.*.proj_out"
    ] == (8, 32)
    assert count_parameters(transformer) == 2 * 320 + 32
    assert count_parameters(model.components["vae"]) == 3
    assert count_parameters(model.components["text_encoder_2"]) == 80
    assert model.scheduler == {"class": "FlowMatchEulerDiscreteScheduler", "shift": 1.0}
    assert model.tokens["spatial"] == 4
    assert model.tokens["multiple"] == 1
    assert model.defaults["height"] == 256
    assert model.call_args["guidance_scale"] == 3.5


def test_folder_without_index(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match=r"model_index\.json") as caught:
        facts_of_folder(tmp_path)
    assert "save_pretrained" in caught.value.hint
    with pytest.raises(FactsError, match="is no folder"):
        facts_of_folder(tmp_path / "absent")


def test_folder_with_a_tokenizer_that_has_no_words(folder: Path) -> None:
    (folder / "tokenizer" / "tokenizer_config.json").write_text("{}")
    facts_of_folder(folder)
    (folder / "tokenizer" / "vocab.json").unlink()
    with pytest.raises(FactsError, match="tokenizer` holds no words") as caught:
        facts_of_folder(folder)
    assert "`tokenizer.json`" in caught.value.hint
    index = (folder / "model_index.json").read_text()
    (folder / "model_index.json").write_text(index.replace("CLIPTokenizer", "ByT5Tokenizer"))  # its words are bytes
    facts_of_folder(folder)
    (folder / "tokenizer" / "tokenizer_config.json").unlink()
    (folder / "tokenizer").rmdir()
    with pytest.raises(FactsError, match="tokenizer` is missing"):
        facts_of_folder(folder)


def test_folder_with_broken_json(folder: Path) -> None:
    for text in ("{", "[1]", "\ufeff{}x"):
        (folder / "vae" / "config.json").write_text(text)
        with pytest.raises(FactsError, match="JSON"):
            facts_of_folder(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:4],
        lambda content: content[:30],
        lambda content: content[:-1],
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content[:8] + b"[" + content[9:],
        lambda content: content.replace(b'"shape"', b'"shap_"'),
        lambda content: content.replace(b"[3]", b"[x]"),
        lambda content: content.replace(b'"data_offsets": [0', b'"data_offsets": [9'),
    ],
)
def test_damaged_weights(folder: Path, damage: object) -> None:
    file = folder / "vae" / "diffusion_pytorch_model.safetensors"
    write_weights(file, {"decoder.w": (3,)})
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FactsError) as caught:
        facts_of_folder(folder)
    assert str(file) in caught.value.message
    assert caught.value.hint


def test_missing_weights(folder: Path) -> None:
    (folder / "transformer" / "diffusion_pytorch_model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FactsError, match="00002-of-00002"):
        facts_of_folder(folder)


def test_variant_only(folder: Path) -> None:
    vae = folder / "vae"
    (vae / "diffusion_pytorch_model.safetensors").rename(vae / "diffusion_pytorch_model.fp16.safetensors")
    with pytest.raises(FactsError) as caught:
        facts_of_folder(folder)
    assert "variant: fp16" in caught.value.hint
    assert facts_of_folder(folder, variant="fp16").components["vae"].parameters


def test_weights_outside_the_folder_are_refused(folder: Path) -> None:
    file = folder / "transformer" / "diffusion_pytorch_model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": {"a": "../../secret.safetensors"}}))
    with pytest.raises(FactsError, match="outside"):
        facts_of_folder(folder)


@pytest.mark.slow
def test_generated_files_are_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    # In a process of its own, as a person runs it: what other tests have imported and built stays out of it.
    program = "import pathlib, sys\nfrom dcompile.facts.generate import main\nmain(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=600)
    written = {file.name for file in tmp_path.glob("*.json")}
    # What is measured and what was compared come from runs of their own.
    others = {"activations.json", "verified.json"}
    assert written == {file.name for file in MODELS.glob("*.json")} - others
    stale = [name for name in sorted(written) if (tmp_path / name).read_bytes() != (MODELS / name).read_bytes()]
    assert not stale, "run python -m dcompile.facts.generate"


def test_a_folder_may_have_every_encoder_of_the_known_models() -> None:
    """Its class is asked of nobody: a folder is checked without torch."""
    parts = [part for name in known_models() for part in load_model(name).components.values()]
    encoders = {part.class_name for part in parts if part.library == "transformers"}
    assert len(encoders) > 10
    assert encoders <= known_classes().keys()
