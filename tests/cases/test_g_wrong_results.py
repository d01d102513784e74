"""Cases 76 to 85: it runs, and the picture is wrong."""

from __future__ import annotations

from typing import Any

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
PICTURE = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"


def gpus(count: int) -> str:
    return f"devices: {{gpu: h200-sxm, per_node: {count}}}\n"


def rows(plan: Any) -> list[tuple[str, int, int]]:
    return [(row["prompt"], row["index"], row["seed"]) for row in plan["program"]["run"]["rows"]]


def test_case_076_a_part_of_the_picture_is_noise(verdict: Any, picture: Any) -> None:
    """Tencent-Hunyuan/HunyuanVideo-I2V#35: a split that does not match its conditioning. What is accepted was compared
    with one process (tests/oracle/test_pictures.py); weights that take no picture are refused."""
    job = gpus(4) + f"run: {{task: image-to-video, prompts: [a red fox], images: [{picture()}]}}\n"
    job += "parallel: {context: {ulysses: 4}}\n"
    found = verdict("version: 1\nmodel: {id: Wan-AI/Wan2.1-T2V-14B-Diffusers}\n" + job)
    assert [(one.code, one.path) for one in found] == [("DC364", "run.task")]
    assert "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers" in found[0].hint
    assert verdict("version: 1\nmodel: {id: Wan-AI/Wan2.1-I2V-14B-480P-Diffusers}\n" + job) == []


def test_case_077_each_rank_draws_its_own_noise(compiled: Any, verdict: Any) -> None:
    """vllm-project/vllm-omni#1729, SkyworkAI/SkyReels-V2#25: a seed that the recipe does not give is chosen once and
    recorded for all ranks; one for each rank cannot be said."""
    split = "parallel: {context: {ulysses: 2}}\n"
    plan = compiled(FLUX + gpus(2) + PICTURE + split).plan_json
    chosen = {decision["what"]: decision for decision in plan["decisions"]}["run.seed"]
    assert "ranks must draw the same noise" in chosen["because"]
    assert rows(plan) == [("a red fox", 0, int(chosen["chosen"]))]
    found = verdict(FLUX + gpus(2) + PICTURE.replace("}", ", seed: per_rank}") + split)
    assert [(one.code, one.path) for one in found] == [("DC203", "run.seed")]


def test_case_078_all_replicas_make_one_picture(compiled: Any) -> None:
    """threestudio-project/threestudio#195: the picture's index counts into its seed, whatever the number of ranks."""
    run = "run: {prompts: [a], images_per_prompt: 4, seed: 7, height: 512, width: 512}\n"
    plan = compiled(FLUX + gpus(2) + run + "parallel: {data: 2}").plan_json
    assert [seed for _, _, seed in rows(plan)] == [7, 8, 9, 10]
    assert plan["program"]["run"]["shares"] == [[0, 1], [2, 3]]


def test_case_080_the_picture_depends_on_the_plan(compiled: Any) -> None:
    """easydiffusion/easydiffusion#339: names, seeds and prompts are the same for any number of replicas; the pictures
    themselves are compared in tests/distributed/test_strategies.py."""
    run = "run: {prompts: [a, b, c, d, e], seed: 3, height: 512, width: 512}\n"
    made = [
        compiled(FLUX + gpus(data) + run + f"parallel: {{data: {data}}}").plan_json["program"] for data in (1, 2, 3, 4)
    ]
    for program in made[1:]:
        assert program["run"]["rows"] == made[0]["run"]["rows"]
        assert program["run"]["call"] == made[0]["run"]["call"]
        assert program["output"] == made[0]["output"]


def test_case_081_flux_was_incoherent_once(verdict: Any) -> None:
    """huggingface/diffusers#12443: the ring is right in the version that the facts know, and a recipe that asks for an
    older one is refused."""
    ring = "parallel: {context: {ring: 2}}\n"
    assert verdict(FLUX + gpus(2) + PICTURE + ring) == []
    old = verdict(FLUX + 'requires: {diffusers: "<0.36"}\n' + gpus(2) + PICTURE + ring)
    assert [(one.code, one.path) for one in old] == [("DC310", "requires.diffusers")]
    assert "0.42" in old[0].message


def test_case_082_editing_variants_under_context(verdict: Any) -> None:
    """huggingface/diffusers#12970, #12737: verdicts go by the version that the facts were made from, and an older one
    that is asked for is refused."""
    recipe = 'version: 1\nrequires: {diffusers: "<0.37"}\nmodel: {id: Qwen/Qwen-Image-Edit}\n' + gpus(2) + PICTURE
    found = verdict(recipe + "parallel: {context: {ulysses: 2, uneven: true}}\n")
    assert ("DC310", "requires.diffusers") in [(one.code, one.path) for one in found]


def test_case_084_faint_lines_with_two_ranks(verdict: Any, compiled: Any) -> None:
    """komikndr/raylight#66: every accepted combination was compared with one process, an adapter under context among
    them (tests/oracle/test_adapters.py); a check inside of the job is no key of the recipe."""
    adapted = FLUX.replace("}", ", adapters: [{path: a.safetensors}]}") + gpus(2) + PICTURE
    split = "parallel: {context: {ulysses: 2}}\n"
    assert compiled(adapted + split).plan_json["program"]["pipeline"]["adapters"][0]["fuse"] is False
    found = verdict(adapted + split + "verify: {reference: single, steps: 2}\n")
    assert [(one.code, one.path) for one in found] == [("DC201", "verify")]


def test_case_085_adapters_loaded_by_threads(compiled: Any) -> None:
    """huggingface/diffusers#11914: a replica is a process with its own device, and loads adapters before it runs."""
    adapted = FLUX.replace("}", ", adapters: [{path: a.safetensors}, {path: b.safetensors, weight: 0.5}]}")
    run = "run: {prompts: [a, b], height: 512, width: 512}\n"
    program = compiled(adapted + gpus(2) + run + "parallel: {data: 2}").plan_json["program"]
    assert (program["ranks"], program["devices_per_rank"]) == (2, 1)
    assert [(one["path"], one["weight"]) for one in program["pipeline"]["adapters"]] == [
        ("a.safetensors", 1.0),
        ("b.safetensors", 0.5),
    ]
