"""The recipe as a type: every section and key of `recipe.yaml`, frozen.

`schemas/recipe.schema.json` is generated from these classes (`dcompile schema`). What a key may hold is here; what
keys may hold together is a rule. Sizes stay text here and are read with `core.units.parse_bytes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

DType = Literal["float32", "bfloat16", "float16"]
Degree = Annotated[StrictInt, Field(ge=1, le=4096)]
Count = Annotated[StrictInt, Field(ge=1)]
# What no pipeline makes, but a job could be started with; a sum over it would take for ever.
Side = Annotated[StrictInt, Field(ge=1, le=65_536)]
Many = Annotated[StrictInt, Field(ge=1, le=100_000)]
Index = Annotated[StrictInt, Field(ge=0)]
Number = StrictInt | StrictFloat
Rate = Annotated[StrictInt | StrictFloat, Field(gt=0)]
Seed = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]


# The pattern is for editors alone: what is wrong with a size is said by `decode`.
SIZE: dict[str, Any] = {"pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGTkmgt][Ii]?)?[Bb]\s*$"}
Size = Annotated[StrictStr, Field(json_schema_extra=SIZE)]


class Section(BaseModel):
    """What all parts of a recipe share: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Scheduler(Section):
    """A scheduler in place of the model's own, or other settings for it."""

    model_config = ConfigDict(extra="allow")
    class_: StrictStr | None = Field(default=None, alias="class", description="A diffusers scheduler class.")


class Adapter(Section):
    """A LoRA that is loaded into a component."""

    path: StrictStr = Field(description="A folder or .safetensors file relative to the recipe, or a hub id.")
    weight: Number = Field(default=1.0, description="How strongly the adapter counts.")
    component: StrictStr | None = Field(
        default=None, description="The component it belongs to; the denoiser otherwise."
    )
    fuse: StrictBool | None = Field(default=None, description="Merge it into the weights; needed under `tensor`.")


class Model(Section):
    """Which pipeline."""

    id: StrictStr | None = Field(default=None, description="A hub id.", examples=["black-forest-labs/FLUX.1-dev"])
    path: StrictStr | None = Field(default=None, description="A folder or .safetensors file, relative to the recipe.")
    like: StrictStr | None = Field(
        default=None, description="The known id whose facts hold for these weights (a fine-tune)."
    )
    revision: StrictStr | None = Field(default=None, description="A branch, tag or commit of the hub repository.")
    variant: StrictStr | None = Field(default=None, description="A variant of the weight files, such as fp16.")
    pipeline: StrictStr | None = Field(
        default=None, description="A diffusers pipeline class, where the model's own is not meant."
    )
    dtype: DType | None = Field(default=None, description="The dtype of every component that does not say its own.")
    scheduler: Scheduler | None = Field(
        default=None,
        description="A scheduler in place of the model's own.",
        examples=[{"class": "EulerDiscreteScheduler"}],
    )
    adapters: tuple[Adapter, ...] = Field(default=(), description="LoRAs that are loaded, in order.")
    trust_remote_code: StrictBool = Field(
        default=False, description="Allow code from the model's repository; the command line must confirm it."
    )


class Quantize(Section):
    """Weights in fewer bits."""

    method: Literal["torchao", "bitsandbytes", "quanto", "gguf"] = Field(description="The library that quantizes.")
    type: StrictStr | None = Field(
        default=None, description="The method's own name for the type, such as int8wo or nf4."
    )


class Component(Section):
    """What one component is."""

    id: StrictStr | None = Field(default=None, description="A hub id to take the component from.")
    path: StrictStr | None = Field(
        default=None, description="A folder to take the component from, relative to the recipe."
    )
    dtype: DType | None = Field(default=None, description="The component's dtype, where it is not the model's.")
    quantize: Quantize | None = Field(default=None, description="Weights in fewer bits.")
    attention: StrictStr | None = Field(default=None, description="A diffusers attention backend.", examples=["native"])
    compile: StrictBool | None = Field(default=None, description="torch.compile the component's repeated blocks.")
    cache: dict[str, Any] | None = Field(default=None, description="A step cache: {kind, ...}.")
    tiling: StrictBool | None = Field(default=None, description="Decode in tiles (VAE).")


class Speed(Section):
    """What one device did a second; what is left out is taken from the hardware table, where the device is in it."""

    matmul_flops_per_second: Rate | None = Field(default=None, description="Operations of matrix products.")
    attention_flops_per_second: Rate | None = Field(default=None, description="Operations of attention.")
    memory_bytes_per_second: Rate | None = Field(default=None, description="Bytes read and written.")
    host_seconds_per_block: Rate | None = Field(
        default=None, description="What the host takes to start the kernels of one block of a denoiser."
    )


class Collective(Section):
    """One measured collective between devices of a node."""

    operation: Literal["all_reduce", "all_gather", "all_to_all"] = Field(description="Which.")
    ranks: Annotated[StrictInt, Field(ge=2, le=4096)] = Field(description="How many took part.", examples=[2])
    bytes: Count = Field(
        description="What a rank holds: before an all-reduce or an all-to-all, after an all-gather.", examples=[2**20]
    )
    seconds: Rate = Field(description="The median of its repeats, of the slowest rank.", examples=[0.0001])


class Measured(Section):
    """What was measured on this machine (`dcompile probe`). The estimate of time prefers it to the tables."""

    dtype: DType = Field(description="The dtype that speeds were measured in.")
    speeds: tuple[Speed, ...] = Field(
        default=(),
        description="One for each device of a node, in order, or one for all.",
        examples=[[{"matmul_flops_per_second": 1.5e14, "attention_flops_per_second": 1.2e14}]],
    )
    collectives: tuple[Collective, ...] = Field(
        default=(),
        description="Collectives by size and number of ranks.",
        examples=[[{"operation": "all_reduce", "ranks": 2, "bytes": 1048576, "seconds": 0.0001}]],
    )


class Devices(Section):
    """The machine."""

    gpu: StrictStr | None = Field(
        default=None, description="A name from `dcompile hardware`.", examples=["h100-sxm-80gb"]
    )
    gpus: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = Field(
        default=None, description="One name for each device of a mixed box."
    )
    kind: Literal["cuda", "xpu", "cpu"] | None = Field(default=None, description="The kind, where no name is given.")
    memory: Size | Annotated[tuple[Size, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Memory of one device, with a unit; of a mixed box a list of them.",
        examples=["24GiB", ["24GiB", "12GiB"]],
    )
    link: StrictStr | None = Field(
        default=None,
        description="How devices of a node are linked: a known link, or a bandwidth.",
        examples=["nvlink4", "64GB/s"],
    )
    per_node: Count | None = Field(default=None, description="Devices of each node that this job uses.")
    nodes: Count = Field(default=1, description="Nodes that this job uses.")
    node_link: StrictStr | None = Field(default=None, description="How nodes are linked: a known link, or a bandwidth.")
    ids: Annotated[tuple[Index, ...], Field(min_length=1)] | None = Field(
        default=None, description="Which devices of the node."
    )
    host_memory: Size | None = Field(default=None, description="Memory of the host, with a unit.", examples=["4GiB"])
    reserve: Size | None = Field(
        default=None, description="Device memory that stays free, with a unit.", examples=["4GiB"]
    )
    measured: Measured | None = Field(default=None, description="What `dcompile probe` measured on this machine.")


class Tensor(Section):
    """Weight matrices are split."""

    degree: Degree = Field(description="By how many devices the matrices are split.", examples=[2])
    plan: Literal["builtin", "ours"] | None = Field(default=None, description="The library's plan, or our own.")


class Context(Section):
    """The sequence is split."""

    ulysses: Degree = Field(default=1, description="Heads are exchanged for tokens: divides the heads.")
    ring: Degree = Field(default=1, description="Keys and values go round.")
    uneven: StrictBool = Field(default=False, description="Allow lengths that the degree does not divide.")


DeviceMapValue = Index | Annotated[tuple[Index, ...], Field(min_length=1)]


class ComponentParallel(Section):
    """How one component is split."""

    device: Index | None = Field(default=None, description="The device it lies on, counted within a replica.")
    offload: Literal["model", "group", "sequential"] | None = Field(
        default=None, description="Keep it in host memory and bring it over whole, by groups of blocks, or by layers."
    )
    tensor: Degree | Tensor | None = Field(default=None, description="Degree by which its matrices are split.")
    context: Context | None = Field(default=None, description="The sequence is split.", examples=[{"ulysses": 2}])
    shard: Literal["context"] | None = Field(default=None, description="Its weights, sharded over the context group.")


class Auto(Section):
    """What `parallel: auto` must keep and must not use."""

    fixed: dict[str, Any] = Field(default={}, description="Keys of `parallel` that stay.", examples=[{"data": 2}])
    forbid: tuple[StrictStr, ...] = Field(default=(), description="Kinds that are not used.", examples=[["offload"]])


class Parallel(Section):
    """How the pipeline is split."""

    auto: Auto | None = Field(default=None, description="The compiler chooses within these bounds.")
    data: Degree | None = Field(default=None, description="Replicas; the prompts are divided.")
    device_map: Literal["balanced"] | Annotated[dict[StrictStr, DeviceMapValue], Field(min_length=1)] | None = Field(
        default=None, description="Whole components, or the blocks of one, on the devices of one process."
    )
    context: Context | None = Field(default=None, description="The sequence is split.", examples=[{"ulysses": 2}])
    tensor: Degree | Tensor | None = Field(
        default=None, description="Degree by which the denoiser's matrices are split."
    )
    shard: Literal["context"] | None = Field(default=None, description="Weights sharded over the context group.")
    cfg: Degree | None = Field(default=None, description="The two guidance branches on different ranks.")
    components: dict[StrictStr, ComponentParallel] = Field(
        default={}, description="How single components are split.", examples=[{"vae": {"device": 1}}]
    )


class Run(Section):
    """What is generated."""

    task: StrictStr | None = Field(
        default=None, description="What is made of what; clear from most pipelines.", examples=["text-to-image"]
    )
    prompts: tuple[StrictStr, ...] | StrictStr | None = Field(
        default=None, description="A list of prompts, or a .txt, .jsonl or .csv file relative to the recipe."
    )
    negative_prompt: StrictStr | None = Field(default=None, description="What the guided branch moves away from.")
    images: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Input pictures of every row, relative to the recipe: .png, .jpg or .webp.",
        examples=[["fox.png"]],
    )
    height: Side | None = Field(
        default=None, description="Height in pixels; the model's own otherwise.", examples=[1024]
    )
    width: Side | None = Field(default=None, description="Width in pixels; the model's own otherwise.", examples=[1024])
    frames: Many | None = Field(default=None, description="Frames of a video.", examples=[81])
    steps: Many | None = Field(default=None, description="Denoising steps (num_inference_steps).", examples=[28])
    guidance: Number | None = Field(default=None, description="The guidance the model was distilled with.")
    true_cfg: Number | None = Field(default=None, description="Classifier-free guidance with two branches.")
    seed: Seed | None = Field(default=None, description="Seed of the random numbers.", examples=[42])
    seeds: tuple[Seed, ...] | None = Field(
        default=None, description="One seed for each prompt; its repeats count up from it.", examples=[[1, 2]]
    )
    images_per_prompt: Many = Field(default=1, description="Pictures made of each prompt.")
    batch: Many = Field(default=1, description="Pictures made in one call.")
    id_column: StrictStr | None = Field(
        default=None, description="The column of the prompt file that names a row; `{id}` in `output.name`."
    )
    args: dict[StrictStr, Any] = Field(default={}, description="Other arguments of the pipeline's call.")


class Output(Section):
    """Where pictures go."""

    dir: StrictStr = Field(default="out", description="A folder, relative to the working directory.")
    name: StrictStr = Field(default="{index:05d}", description="A template: {index:05d}, {seed}, {prompt_slug}, {id}.")
    format: Literal["png", "jpg", "webp", "mp4"] | None = Field(
        default=None, description="The kind of file; png for pictures and mp4 for videos otherwise."
    )
    fps: Count | None = Field(default=None, description="Frames per second of a video.", examples=[16])


class Launch(Section):
    """How ranks are started."""

    timeout_seconds: Annotated[StrictInt, Field(ge=1, le=2_592_000)] = Field(
        default=600, description="How long a rank waits for the others; at most 30 days."
    )
    env: dict[StrictStr, StrictStr] = Field(
        default={}, description="Environment of every rank.", examples=[{"NCCL_DEBUG": "WARN"}]
    )


class Recipe(Section):
    """One diffusion job: model, devices, parallel plan, prompts."""

    version: Literal[1] = Field(description="The format of this file.")
    name: StrictStr | None = Field(default=None, description="The job's name; the file's stem otherwise.")
    requires: dict[StrictStr, StrictStr] = Field(default={}, description="Versions that are needed.")
    model: Model = Field(description="Which pipeline.")
    components: dict[StrictStr, Component | None] = Field(default={}, description="What single components are.")
    devices: Devices | StrictStr = Field(
        default_factory=lambda: Devices(), description="The machine, or a file with it."
    )
    parallel: Literal["auto"] | Parallel = Field(
        default_factory=lambda: Parallel(), description="How the pipeline is split; `auto` lets the compiler choose."
    )
    run: Run = Field(default_factory=lambda: Run(), description="What is generated.")
    output: Output = Field(default_factory=lambda: Output(), description="Where pictures go.")
    launch: Launch = Field(default_factory=lambda: Launch(), description="How ranks are started.")
    targets: dict[StrictStr, Any] = Field(default={}, description="Settings for Slurm, Kubernetes and Ray.")
