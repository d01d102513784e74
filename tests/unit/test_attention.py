"""The table of attention backends, and which of them a plan may use."""

from __future__ import annotations

import inspect
import re

import pytest
from dcompile.facts.registry import known_hardware, known_models, load_hardware, load_model
from dcompile.layout.attention import _LACKING, Use, attention_backends, has_choice, legal_backends, refusal
from dcompile.layout.splits import Split

WHOLE, ULYSSES, RING, UNIFIED = Split(), Split(ulysses=2), Split(ring=2), Split(ring=2, ulysses=2)


def legal(kind: str, dtype: str, split: Split, mask: str | None = None) -> set[str]:
    return set(legal_backends(Use(kind, dtype, split, mask)))


def test_native_is_the_first_choice_and_torch_comes_before_packages() -> None:
    names = list(attention_backends())
    assert names[0] == "native"
    needs = [backend.package is not None for backend in attention_backends().values()]
    assert needs == sorted(needs)


def test_what_diffusers_lets_run_under_context() -> None:
    assert {name for name, backend in attention_backends().items() if backend.context} == {
        "native", "_native_cudnn", "_native_flash", "_native_npu", "flash", "flash_hub", "flash_varlen_hub",
        "_flash_3_hub", "_flash_3_varlen_hub", "sage", "sage_hub",
    }  # fmt: skip


def test_the_ring_needs_a_log_sum_exp_and_half_precision() -> None:
    assert "native" in legal("cuda", "bfloat16", ULYSSES)
    ring = legal("cuda", "bfloat16", RING)
    assert "native" not in ring
    assert {"_native_cudnn", "_native_flash", "flash", "sage"} <= ring
    assert ring == legal("cuda", "bfloat16", UNIFIED)
    assert legal("cuda", "float32", RING) == set()
    assert legal("cuda", "float32", ULYSSES) == {"native"}
    assert legal("xpu", "bfloat16", RING) == {"_native_flash"}


def test_a_cpu_has_torchs_own_and_splits_with_native_alone() -> None:
    assert legal("cpu", "float32", WHOLE) == {"native", "_native_flash", "_native_math", "flex"}
    for split in (ULYSSES, RING, UNIFIED):
        assert legal("cpu", "float32", split) == {"native"}


def test_masks_and_heads() -> None:
    masked = legal("cuda", "bfloat16", WHOLE, "bool")
    assert {"native", "_native_cudnn", "flash_varlen"} <= masked
    assert not masked & {"flash", "_native_flash", "sage"}
    assert "flash_varlen" not in legal("cuda", "bfloat16", WHOLE, "float")
    assert refusal("sage_blackwell_hub", Use("cuda", "bfloat16", WHOLE, head_width=80)) is not None
    assert refusal("sage_blackwell_hub", Use("cuda", "bfloat16", WHOLE, head_width=128)) is None


def test_a_reason_ends_a_sentence() -> None:
    assert refusal("xformers", Use("cuda", "bfloat16", ULYSSES)) == "ignores that the sequence is split"
    assert refusal("native", Use("cuda", "bfloat16", RING)) == "gives no log-sum-exp, which `ring` needs"
    assert refusal("flash", Use("cpu", "bfloat16", WHOLE)) == "does not run on cpu devices"
    assert refusal("flash", Use("cuda", "float32", WHOLE)) == "takes bfloat16 or float16, not float32"


def test_layers_without_a_choice() -> None:
    flux, unet = load_model("black-forest-labs/FLUX.1-dev"), load_model("stabilityai/stable-diffusion-xl-base-1.0")
    assert has_choice(flux.components["transformer"])
    assert not has_choice(unet.components["unet"])
    assert not has_choice(flux.components["vae"])
    assert not has_choice(flux.components["text_encoder"])


@pytest.mark.parametrize("model", known_models())
def test_no_known_denoiser_asks_for_what_a_backend_drops(model: str) -> None:
    """diffusers drops arguments that a backend does not take, such as `is_causal`, without a word (row CPB-20)."""
    diffusers = pytest.importorskip("diffusers")
    facts = load_model(model)
    for name in facts.denoisers:
        module = inspect.getmodule(getattr(diffusers, facts.components[name].class_name))
        assert module is not None
        asked = re.findall(r"\b(is_causal|enable_gqa|dropout_p)=([\w.]+)", inspect.getsource(module))
        assert {value for _, value in asked} <= {"False", "0.0"}, name


def test_every_device_of_the_table_has_a_backend_for_every_mode() -> None:
    architectures = {load_hardware(name).architecture for name in known_hardware()}
    assert None not in architectures
    assert {one for lacking in _LACKING.values() for one in lacking} <= architectures
    assert _LACKING.keys() <= attention_backends().keys()
    for one in architectures - {None}:
        for split in (WHOLE, ULYSSES, RING):
            assert legal_backends(Use("cuda", "bfloat16", split, architectures=(str(one),))), one


def test_the_ring_on_amd_goes_without_cudnn() -> None:
    assert legal_backends(Use("cuda", "bfloat16", RING))[0] == "_native_cudnn"
    assert legal_backends(Use("cuda", "bfloat16", RING, architectures=("gfx942",)))[0] == "_native_flash"
    mixed = Use("cuda", "bfloat16", RING, architectures=("sm90", "gfx942"))
    assert refusal("_native_cudnn", mixed) == "has no kernels for gfx942"
