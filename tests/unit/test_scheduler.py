"""`model.scheduler`: its class, or only other settings for the model's own."""

from pathlib import Path

from dcompile.driver import compile_recipe

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "flux1-dev-tensor4.yaml"


def test_settings_alone_keep_the_class_of_the_model() -> None:
    plan = compile_recipe(RECIPE, ["model.scheduler.shift=5.0"]).plan_json
    assert plan is not None
    assert plan["program"]["pipeline"]["scheduler"] == {"class": "FlowMatchEulerDiscreteScheduler", "shift": 5.0}


def test_a_stochastic_setting_of_the_own_class_forbids_batches() -> None:
    sets = ["model.scheduler.stochastic_sampling=true", "run.batch=2"]
    assert [found.code for found in compile_recipe(RECIPE, sets).diagnostics] == ["DC414"]
