"""`model.scheduler`: its class, or only other settings for the model's own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dcompile.core.diagnostics import Severity
from dcompile.driver import Compiled, compile_recipe
from dcompile.facts.registry import known_models, load_model
from dcompile.facts.schedulers import known_schedulers, pipeline_needs, scheduler_facts
from dcompile.rules.parallel.scheduler_misfit import misfit

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "flux1-dev-tensor4.yaml"


def test_settings_alone_keep_the_class_of_the_model() -> None:
    plan = compile_recipe(RECIPE, ["model.scheduler.shift=5.0"]).plan_json
    assert plan is not None
    assert plan["program"]["pipeline"]["scheduler"] == {"class": "FlowMatchEulerDiscreteScheduler", "shift": 5.0}


def test_a_stochastic_setting_of_the_own_class_forbids_batches() -> None:
    sets = ["model.scheduler.stochastic_sampling=true", "run.batch=2", "run.prompts=[a fox, a boat]"]
    assert [found.code for found in compile_recipe(RECIPE, sets).diagnostics] == ["DC414"]


def test_one_picture_makes_no_batch() -> None:
    sets = ["model.scheduler.stochastic_sampling=true", "run.batch=2", "run.prompts=[a fox]"]
    assert compile_recipe(RECIPE, sets).is_valid


def test_what_the_probe_found_agrees_with_the_published_lists() -> None:
    karras = {name for name in known_schedulers() if scheduler_facts(name).denoises}  # type: ignore[union-attr]
    flow = {name for name in known_schedulers() if {} in scheduler_facts(name).flow}  # type: ignore[union-attr]
    assert {"DDIMScheduler", "EulerDiscreteScheduler", "LCMScheduler", "UniPCMultistepScheduler"} <= karras
    assert {"FlowMatchEulerDiscreteScheduler", "FlowMatchLCMScheduler", "LTXEulerAncestralRFScheduler"} <= flow
    assert karras.isdisjoint(flow | {"EDMEulerScheduler", "DDIMInverseScheduler", "UnCLIPScheduler"})


def test_the_classes_that_draw_noise() -> None:
    noisy = {name for name in known_schedulers() if scheduler_facts(name).noise}  # type: ignore[union-attr]
    assert {
        "DDPMScheduler",
        "EulerAncestralDiscreteScheduler",
        "KDPM2AncestralDiscreteScheduler",
        "LCMScheduler",
    } < noisy
    assert {"TCDScheduler", "SASolverScheduler", "FlowMatchLCMScheduler", "FlowMatchEulerDiscreteScheduler"} < noisy
    assert noisy.isdisjoint({"DDIMScheduler", "EulerDiscreteScheduler", "UniPCMultistepScheduler", "PNDMScheduler"})
    plain = scheduler_facts("FlowMatchEulerDiscreteScheduler")
    assert plain is not None
    assert not plain.draws_noise(plain.arguments)
    assert plain.draws_noise({**plain.arguments, "stochastic_sampling": True})


def test_a_hint_names_the_settings_that_make_the_class_fit() -> None:
    sets = ["model.scheduler={class: UniPCMultistepScheduler}"]
    (found,) = compile_recipe(RECIPE, sets).diagnostics
    assert (found.code, found.path) == ("DC442", ("model", "scheduler", "class"))
    assert found.hint == "set `prediction_type: flow_prediction`, `use_flow_sigmas: true`"
    assert "refuses `mu` and `sigmas` with `use_flow_sigmas: false`" in found.message


def test_schedulers_are_read_only_where_a_recipe_needs_them() -> None:
    code = (
        "from pathlib import Path; from dcompile.facts import schedulers; from dcompile.driver import compile_recipe; "
        f"assert compile_recipe(Path({str(RECIPE)!r})).is_valid; assert schedulers._table.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_known_model_can_use_its_own_scheduler() -> None:
    models = [load_model(name) for name in known_models()]
    reasons = {model.id: misfit(str(model.scheduler["class"]), model, {}) for model in models}
    assert {name: reason for name, reason in reasons.items() if reason is not None} == {}


def test_a_class_for_which_the_pipeline_has_a_call_of_its_own() -> None:
    """HiDream hands `mu` to every class but UniPC (`pipeline_hidream_image.py:908`)."""
    model = load_model("HiDream-ai/HiDream-I1-Full")
    flow = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
    assert misfit("UniPCMultistepScheduler", model, flow) is None
    assert "`mu`" in str(misfit("FlowMatchHeunDiscreteScheduler", model, {}))


def test_noise_is_a_pictures_own_where_the_pipeline_hands_its_generators_on() -> None:
    """What the two pipelines do is run by `tests/oracle/test_strategies.py::test_noise_at_each_step_in_batches`."""
    lcm = scheduler_facts("FlowMatchLCMScheduler")
    assert lcm is not None
    assert lcm.shares_noise({}, pipeline_needs("FluxPipeline", "FlowMatchLCMScheduler"))
    assert not lcm.shares_noise({}, pipeline_needs("SanaPipeline", "FlowMatchLCMScheduler"))
    assert lcm.shares_noise({}, pipeline_needs("APipelineOfOurs", "FlowMatchLCMScheduler"))


def test_a_generator_is_handed_on_only_where_every_step_gets_it() -> None:
    """PRX hands other arguments over as a whole, and LTX2DFR one of its two schedulers."""
    hands = {
        name: needs.hands_generator
        for name in ("SanaPipeline", "PRXPipeline", "LTX2DFRPipeline", "KandinskyV22Pipeline")
        if (needs := pipeline_needs(name, "")) is not None
    }
    assert hands == {
        "SanaPipeline": True, "PRXPipeline": False, "LTX2DFRPipeline": False, "KandinskyV22Pipeline": True
    }  # fmt: skip


SANA = """
    version: 1
    model: {id: Efficient-Large-Model/Sana_1600M_1024px_diffusers, scheduler: SCHEDULER}
    devices: {gpu: h100-sxm-80gb}
    run: {prompts: [a fox], seed: 1, args: {timesteps: [900, 500, 100]}}
    """


@pytest.mark.parametrize(
    ("scheduler", "codes"),
    [
        # Sana's own: DPMSolverMultistep with flow sigmas, which are made of the number of steps alone.
        ("{}", ["DC442"]),
        ("{class: FlowMatchEulerDiscreteScheduler}", []),
    ],
)
def test_timesteps_of_the_call(scheduler: str, codes: list[str], compiled: Callable[..., Compiled]) -> None:
    found = compiled(SANA.replace("SCHEDULER", scheduler)).diagnostics
    assert [item.code for item in found if item.severity is Severity.ERROR] == codes
    assert all("takes none with `use_flow_sigmas: true`" in item.message for item in found if item.code == "DC442")
