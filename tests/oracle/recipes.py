"""Random recipes over the tiny pipelines: mostly legal, with a fault or two in about a third."""

from __future__ import annotations

import copy
import random
from typing import Any

from .zoo import FAMILIES, FIRST, PROMPTS, Family

Recipe = dict[str, Any]
MOST_RANKS = 6
_STRATEGIES = ("none", "data", "tensor", "tensor", "context", "context", "context", "map", "map", "mixed")
_DEGREES = (1, 2, 2, 2, 3, 4, 4, 5, 6)
_BACKENDS = ("native", "native", "_native_math", "flex", "flash", "xformers", "_native_cudnn", "natve")
_DTYPES = ("bfloat16", "bfloat16", "float16", "float32")
_QUANTIZE = (
    {"method": "torchao"},
    {"method": "torchao", "type": "int8wo"},
    {"method": "torchao", "type": "float8wo"},
    {"method": "torchao", "type": "float8wo_e5m2"},
    {"method": "torchao", "type": "int4wo"},
    {"method": "bitsandbytes", "type": "nf4"},
)
_NOT_YET: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("parallel", "cfg"), 2),
    (("parallel", "shard"), "context"),
    (("parallel", "components", "vae", "offload"), "sequential"),
    (("components", "vae", "quantize"), {"method": "quanto", "type": "int8"}),
    (("components", "vae", "compile"), True),
    (("components", "vae", "cache"), {"kind": "fbcache"}),
    (("targets", "slurm"), {}),
)


def recipe_of(seed: int, index: int, names: tuple[str, ...] = FIRST) -> tuple[str, Recipe]:
    """The recipe with a number, and its family; the same for a seed on every machine."""
    draw = random.Random(f"{seed}:{index}")
    family = FAMILIES[names[index % len(names)]]
    while True:
        recipe = _recipe(draw, family)
        if _ranks(recipe, family) <= MOST_RANKS:
            break
    # Numbers of their own, so that the rest of a recipe stays what it was.
    own = random.Random(f"{seed}:{index}:arguments")
    if family.arguments and own.random() < 0.2:
        recipe["run"].setdefault("args", {}).update(own.choice(family.arguments))
    _encoders(random.Random(f"{seed}:{index}:encoders"), family, recipe)
    _owners(random.Random(f"{seed}:{index}:owners"), family, recipe)
    _quantizing(random.Random(f"{seed}:{index}:quantizing"), family, recipe)
    _offloading(random.Random(f"{seed}:{index}:offloading"), family, recipe)
    return family.name, recipe


def _encoders(draw: random.Random, family: Family, recipe: Recipe) -> None:
    """A split of a text encoder beside what the recipe says: over ranks, or its blocks over devices."""
    encoders = [part for part in family.parts if part != "vae"]
    if not encoders or draw.random() > 0.2:
        return
    # A cut beside a split over ranks is refused (DC409) and cannot be asked.
    is_split = any(key in str(recipe.get("parallel", {})) for key in ("tensor", "context"))
    kinds = ("tensor", "tensor", "context") if is_split else ("tensor", "context", "cut", "cut", "cut", "cut")
    name, kind = draw.choice(encoders), draw.choice(kinds)
    own: Recipe = {"tensor": draw.choice((2, 2, 3, 4, {"degree": 2, "plan": "builtin"}))}
    if kind == "context":
        own = {"context": _context(draw)}
    parallel = copy.deepcopy(recipe.get("parallel", {}))
    if kind == "cut":
        at = parallel.get("device_map", {})
        if isinstance(at, dict):
            parallel["device_map"] = {**at, name: draw.sample(range(3), draw.choice((2, 2, 3)))}
    else:
        parallel.setdefault("components", {}).setdefault(name, {}).update(own)
    if _ranks({"parallel": parallel}, family) <= MOST_RANKS:
        recipe["parallel"] = parallel


def _owners(draw: random.Random, family: Family, recipe: Recipe) -> None:
    """The component of an adapter: mostly a denoiser, sometimes another one; and an argument that takes tensors."""
    for adapter in recipe["model"].get("adapters", ()):
        if draw.random() < 0.5:
            adapter["component"] = draw.choice((*family.denoisers * 4, *family.parts))
    if draw.random() < 0.03:
        name, value = draw.choice((("latents", 1), ("prompt_embeds", [[0.5]]), ("negative_prompt_embeds", 0)))
        recipe["run"].setdefault("args", {})[name] = value


def _quantizing(draw: random.Random, family: Family, recipe: Recipe) -> None:
    if draw.random() < 0.1:
        name = draw.choice((*family.denoisers, *family.denoisers, *family.parts))
        part = recipe.setdefault("components", {}).setdefault(name, {})
        if part is not None:
            part["quantize"] = draw.choice(_QUANTIZE)


def _offloading(draw: random.Random, family: Family, recipe: Recipe) -> None:
    """Components that come to their device only to be called; every one of them, or some."""
    if draw.random() > 1 / 6:
        return
    parts = (*family.denoisers, *family.parts)
    parallel = copy.deepcopy(recipe.get("parallel", {}))
    for name in draw.sample(parts, draw.choice((1, 1, 2, len(parts)))):
        parallel.setdefault("components", {}).setdefault(name, {})["offload"] = "model"
    recipe["parallel"] = parallel


def _recipe(draw: random.Random, family: Family) -> Recipe:
    recipe: Recipe = {"version": 1, "model": {"path": family.name, "dtype": "float32"}, "devices": {"kind": "cpu"}}
    recipe["components"] = {}
    recipe["parallel"] = _parallel(draw, family, recipe)
    recipe["run"] = _run(draw, family)
    _options(draw, family, recipe)
    for section in ("components", "parallel"):
        if not recipe[section]:
            del recipe[section]
    return recipe


def _parallel(draw: random.Random, family: Family, recipe: Recipe) -> Recipe:
    kind = draw.choice(_STRATEGIES)
    if kind not in ("none", "mixed") and kind not in family.strategies and draw.random() < 0.85:
        kind = draw.choice(family.strategies)
    parallel: Recipe = {}
    if kind == "mixed":
        for some in draw.sample(("data", "tensor", "context", "map"), 2):
            parallel |= _strategy(draw, some, family, recipe)
    elif kind != "none":
        parallel = _strategy(draw, kind, family, recipe)
        if draw.random() < 0.25 and kind != "data":
            parallel["data"] = 2
    if draw.random() < 0.2:
        _component_split(draw, family, parallel)
    return parallel


def _strategy(draw: random.Random, kind: str, family: Family, recipe: Recipe) -> Recipe:
    if kind == "data":
        return {"data": draw.choice((2, 2, 3, 4))}
    if kind == "tensor":
        degree = draw.choice(_DEGREES)
        return {"tensor": draw.choice((degree, {"degree": degree, "plan": "builtin"}))}
    if kind == "context":
        return {"context": _context(draw)}
    choice = draw.choice(("balanced", "named", "named", "blocks", "blocks", "odd"))
    if choice == "balanced":
        if draw.random() < 0.9:
            recipe["devices"]["per_node"] = draw.choice((2, 3, 4))
        return {"device_map": "balanced"}
    parts = (*family.denoisers, *family.parts)
    named: Recipe = {name: draw.randrange(3) for name in draw.sample(parts, draw.randint(1, len(parts)))}
    if choice != "named":
        cut = draw.choice(parts if choice == "odd" else family.denoisers)
        named[cut] = draw.sample(range(3), draw.choice((2, 2, 3)))
    if choice == "odd" and draw.random() < 0.3:
        named["transfomer"] = 0
    return {"device_map": named}


def _context(draw: random.Random) -> Recipe:
    kind = draw.choice(("ulysses", "ring", "both"))
    context: Recipe = {}
    if kind in ("ulysses", "both"):
        context["ulysses"] = draw.choice(_DEGREES) if kind == "ulysses" else 2
    if kind in ("ring", "both"):
        context["ring"] = draw.choice(_DEGREES) if kind == "ring" else 2
    if draw.random() < 0.4:
        context["uneven"] = True
    return context


def _component_split(draw: random.Random, family: Family, parallel: Recipe) -> None:
    """Keys for one component: another split for a denoiser or an encoder, a device for the rest."""
    components: Recipe = parallel.setdefault("components", {})
    kind = draw.choice(("denoiser", "denoiser", "encoder", "device"))
    if kind == "denoiser":
        own = draw.choice(({"tensor": 2}, {"context": _context(draw)}))
        components[draw.choice(family.denoisers)] = own
    elif kind == "encoder":
        encoders = [part for part in family.parts if part != "vae"]
        components[draw.choice(encoders)] = {"tensor": draw.choice((2, 2, 4))}
    else:
        components[draw.choice(family.parts)] = {"device": draw.randrange(3)}


def _run(draw: random.Random, family: Family) -> Recipe:
    count = draw.choice((1, 2, 2, 3))
    run: Recipe = {"prompts": draw.sample(PROMPTS, count)}
    if family.images:
        run["images"] = list(family.images)
    run["height"], run["width"] = draw.choice(family.sizes)
    frames = draw.choice(family.frames)
    if frames is not None:
        run["frames"] = frames
    run |= {"steps": 2, "seed": draw.randrange(1000), **draw.choice(family.guidance)}
    length = draw.choice(family.text_lengths)
    args = {**family.args, **run.get("args", {})} | ({} if length is None else {"max_sequence_length": length})
    if args:
        run["args"] = args
    if draw.random() < 0.3:
        run["batch"] = draw.choice((2, 3))
    if draw.random() < 0.15:
        run["images_per_prompt"] = 2
    if draw.random() < 0.1:
        del run["seed"]
        run["seeds"] = [draw.randrange(1000) for _ in range(count)]
    return run


def _options(draw: random.Random, family: Family, recipe: Recipe) -> None:
    if family.schedulers and draw.random() < 0.25:
        recipe["model"]["scheduler"] = dict(draw.choice(family.schedulers))
    if draw.random() < 0.2 and family.lora_targets:
        recipe["model"]["adapters"] = [_adapter(draw, family) for _ in range(draw.choice((1, 1, 2)))]
    components: Recipe = recipe["components"]
    if draw.random() < 0.2:
        components.setdefault(draw.choice(family.denoisers), {})["attention"] = draw.choice(_BACKENDS)
    if draw.random() < 0.15:
        name = draw.choice((*family.denoisers, *family.parts))
        components.setdefault(name, {})["dtype"] = draw.choice(_DTYPES)
    if draw.random() < 0.05:
        recipe["model"]["dtype"] = draw.choice(_DTYPES)
    if draw.random() < 0.05:
        components.setdefault(draw.choice((family.denoisers[0], "vae", "vae", "vae")), {})["tiling"] = True
    if draw.random() < 0.04:
        components[draw.choice((*family.parts, *family.spare * 4))] = None
    if draw.random() < 0.03:
        recipe["run"].setdefault("args", {})["max_seq_length"] = 8
    if draw.random() < 0.04:
        path, value = draw.choice(_NOT_YET)
        node: Any = recipe
        for key in path[:-1]:
            node = node.setdefault(key, {}) or {}
        node[path[-1]] = value


def _adapter(draw: random.Random, family: Family) -> Recipe:
    adapter: Recipe = {"path": f"{family.name}-lora", "weight": draw.choice((1.0, 0.5))}
    if draw.random() < 0.5:
        adapter["fuse"] = draw.choice((True, True, False))
    return adapter


def _ranks(recipe: Recipe, family: Family) -> int:
    """Processes that the recipe would start, degrees of one axis counted once."""
    parallel = recipe.get("parallel", {})
    own = [parallel, *parallel.get("components", {}).values()]
    degrees = {"tensor": 1, "ring": 1, "ulysses": 1}
    for section in own:
        tensor = section.get("tensor", 1)
        degrees["tensor"] = max(degrees["tensor"], tensor if isinstance(tensor, int) else tensor["degree"])
        for axis in ("ring", "ulysses"):
            degrees[axis] = max(degrees[axis], section.get("context", {}).get(axis, 1))
    return int(parallel.get("data", 1) * degrees["tensor"] * degrees["ring"] * degrees["ulysses"])
