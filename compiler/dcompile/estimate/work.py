"""How much work one call of a denoiser is, from its real shapes: matrix products, attention, and bytes passed over.

A matrix of `out x in` does 2 * out * in operations for each token that it sees; which tokens those are follows from the
parameter's name and its stack of blocks:

- modulation and time embedding see one vector a sample;
- a stack with `add_q_proj` has two streams: its text matrices see text tokens, the others image tokens, and attention
  joins both;
- a stack with `attn2` beside `attn1` attends to the text apart: key and value of `attn2` see text tokens;
- Kandinsky 5 calls it `cross_attention`; of a mixture's experts each sees its share of the tokens;
- any other stack works on image and text tokens in one sequence.

Attention of q queries on k keys at width w does 4 * q * k * w operations. Source of the structure: the transformer and
UNet classes of diffusers 0.42.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from dcompile.facts.types import ComponentFacts, TensorGroup
from dcompile.layout.shard import KEPT, parameter_shards

ONCE = ("norm", "_mod.", "modulation", "time", "t_embedder", "adaln", "adaLN", "guidance", "pooler", "add_embedding")
"""Parts of names of what works on one vector a sample."""
TEXT = ("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "context", "txt", "caption", "text", "cap_embedder")
"""Parts of names of what works on text tokens."""
QUERY = ("to_q.weight", "to_query.weight", "to_qkv_mlp_proj.weight", "to_qkv.weight")
CROSS = (".attn2.", ".cross_attention.")
CROSS_KEYS = (".attn2.to_k", ".attn2.to_v", ".cross_attention.to_key", ".cross_attention.to_value")
LINEAR_ATTENTION = ("SanaTransformer2DModel",)
"""Classes whose self-attention is linear in the tokens: `transformers/sana_transformer.py`."""


@dataclass(frozen=True)
class Tokens:
    """Tokens of one sample: those in all, and the share that one rank works on."""

    image: int
    text: int
    image_here: int
    text_here: int


@dataclass(frozen=True)
class Work:
    """One rank's part of one call, for one sample.

    Attributes:
        matmul_flops, attention_flops, convolution_flops: operations; a UNet's alone convolve.
        residual_elements: token x width over all blocks: one pass over the residual stream.
        inner_elements: the same for what lies within attention and MLP, which tensor parallelism divides.
        blocks: blocks with attention, one after the other.
    """

    matmul_flops: float = 0.0
    attention_flops: float = 0.0
    residual_elements: float = 0.0
    inner_elements: float = 0.0
    blocks: int = 0
    convolution_flops: float = 0.0


@lru_cache(maxsize=KEPT)
def denoiser_work(component: ComponentFacts, tokens: Tokens, tensor: int = 1) -> Work:
    """The work of a denoiser of any family.

    Args:
        component: its facts.
        tokens: of one sample; for a UNet the positions of its latent, which are `image`.
        tensor: degree by which its matrices are split with the library's plan.
    """
    if "UNet" in component.class_name:
        return _unet_work(component, tokens)
    sharded = parameter_shards(component, tensor)
    matmul = sum(
        _operations(group)
        * _seen(group.name, component, tokens)
        * _expert_share(group.name, component)
        / (tensor if group.name in sharded else 1)
        for group in component.parameters
        if len(group.shape) > 1
    )
    attention = residual = 0.0
    blocks = 0
    for group, width in _attentions(component):
        stack = _stack_of(group.name, component)
        joint = _is_joint(stack, component)
        text = _on_text(group.name) or "audio" in group.name
        here = tokens.image_here + tokens.text_here if joint else tokens.text_here if text else tokens.image_here
        whole = tokens.image + tokens.text if joint else tokens.text if text else tokens.image
        if any(part in group.name for part in CROSS):
            keys = tokens.image if _has(stack, "add_q_proj", component) else tokens.text
        else:
            keys = width // 8 if component.class_name in LINEAR_ATTENTION else whole
            blocks += group.repeat
            residual += float(here) * width * group.repeat
        attention += 4.0 * here * keys * width * group.repeat / tensor
    return Work(matmul, attention, residual, residual / tensor, blocks)


def _expert_share(name: str, component: ComponentFacts) -> float:
    """The share of the tokens that an expert of a mixture sees; 1 for all else."""
    routed, active = (component.config.get(f"num_{which}_experts") for which in ("routed", "activated"))
    return active / routed if ".experts." in name and active and routed else 1.0


def _operations(group: TensorGroup) -> float:
    """Operations of all matrices of a group on one token."""
    return 2.0 * prod(group.shape) * group.repeat


def _attentions(component: ComponentFacts) -> Iterator[tuple[TensorGroup, int]]:
    """The query projection of every attention layer, and the layer's width."""
    head = component.config.get("attention_head_dim")
    model_width = (component.heads or 0) * head if isinstance(head, int) else 0
    for group in component.parameters:
        if group.name.endswith(QUERY) and not any(part in group.name for part in ("pooler", "add_q_proj")):
            fused = not group.name.endswith(("to_q.weight", "to_query.weight"))
            yield group, (model_width or group.shape[1]) if fused else group.shape[0]


def _stack_of(name: str, component: ComponentFacts) -> str:
    """The stack of blocks that a parameter belongs to; empty where it is in none."""
    return next((stack for stack, _ in component.blocks if name.startswith(f"{stack}.")), "")


def _has(stack: str, part: str, component: ComponentFacts) -> bool:
    """Whether any parameter of a stack has a part in its name."""
    return any(part in group.name and group.name.startswith(f"{stack}.") for group in component.parameters)


def _on_text(name: str) -> bool:
    return any(part in name for part in TEXT)


def _is_joint(stack: str, component: ComponentFacts) -> bool:
    """Whether the attention of a stack runs over image and text tokens together."""
    if not stack or _on_text(stack) or stack.startswith("noise_refiner"):
        return False
    is_apart = any(_has(stack, part, component) for part in CROSS)
    return not is_apart or _has(stack, "add_q_proj", component)


def _seen(name: str, component: ComponentFacts, tokens: Tokens) -> int:
    """Tokens of a sample that a matrix sees on one rank."""
    if any(part in name for part in ONCE):
        return 1
    if "audio" in name:  # LTX-2: a second of sound has 25 tokens, a clip about as many as a text
        return tokens.text_here
    stack = _stack_of(name, component)
    two_streams = _has(stack, "add_q_proj", component)
    if _on_text(name) or (any(part in name for part in CROSS_KEYS) and not two_streams):
        return tokens.text_here
    if stack and not two_streams and _is_joint(stack, component):
        return tokens.image_here + tokens.text_here
    return tokens.image_here


def _unet_work(component: ComponentFacts, tokens: Tokens) -> Work:
    """A UNet: level by level, with a quarter of the positions at each."""
    levels = dict(component.blocks).get("down_blocks", 4)
    matmul = convolution = attention = residual = 0.0
    blocks = 0
    for group in component.parameters:
        if len(group.shape) < 2:
            continue
        parts = group.name.split(".")
        level = 0
        if parts[0] == "down_blocks" and parts[1].isdecimal():
            level = int(parts[1]) + (parts[2] == "downsamplers")
        elif parts[0] == "up_blocks" and parts[1].isdecimal():
            level = levels - 1 - int(parts[1]) - (parts[2] == "upsamplers")
        elif parts[0] == "mid_block":
            level = levels - 1
        positions = tokens.image_here / 4**level
        is_text = ".attn2.to_k" in group.name or ".attn2.to_v" in group.name
        seen = 1 if any(part in group.name for part in ("time", "add_embedding")) else positions
        operations = _operations(group) * (tokens.text_here if is_text else seen)
        if len(group.shape) > 2:
            convolution += operations
        else:
            matmul += operations
        if group.name.endswith("attn1.to_q.weight"):
            attention += 4.0 * positions * positions * group.shape[0] * group.repeat
        elif group.name.endswith("attn2.to_q.weight"):
            attention += 4.0 * positions * tokens.text * group.shape[0] * group.repeat
        if group.name.endswith(("attn1.to_q.weight", "conv1.weight")):
            residual += positions * group.shape[0] * group.repeat
            blocks += group.repeat
    return Work(matmul, attention, residual, residual, blocks, convolution)


@lru_cache(maxsize=KEPT)
def encoder_flops(component: ComponentFacts, text_tokens: int) -> float:
    """Operations of a text encoder on one prompt; its embedding tables and its vision tower take no part."""
    return sum(
        _operations(group) * text_tokens
        for group in component.parameters
        if len(group.shape) == 2 and not any(part in group.name for part in ("embed", "shared", "vis", "relative"))
    )


@lru_cache(maxsize=KEPT)
def decode_flops(component: ComponentFacts, height_px: int, width_px: int, frames: int, latent_frames: int) -> float:
    """Operations of an autoencoder's decoder for one picture or clip.

    The last of its up blocks works at full size, each before it at half the side; time is full after as many doublings
    as the frames need. Source: `autoencoder_kl*.py` of diffusers 0.42.1.
    """
    levels = dict(component.blocks).get("decoder.up_blocks", 4)
    patch = component.config.get("patch_size")
    side = patch if isinstance(patch, int) else 1
    total = 0.0
    for group in component.parameters:
        if not group.name.startswith("decoder.") or len(group.shape) < 4:
            continue
        parts = group.name.split(".")
        level = 0
        if parts[1] == "up_blocks":
            level = int(parts[2]) if parts[2].isdecimal() else levels // 2
            level = min(levels - 1, level + ("upsamplers" in parts))
        elif parts[1] in ("conv_out", "norm_out"):
            level = levels - 1
        shrink = 4 ** (levels - 1 - level) * side**2
        here = min(frames, latent_frames * 2**level)
        total += _operations(group) * here * height_px * width_px / shrink
    return total
