"""This process's place in the job: its process group, device, mesh and the group that makes one picture."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from dcompile.runtime.errors import RunError
from dcompile.runtime.job import adopt_slurm, check_meeting_place, number_of
from dcompile.runtime.offload import offloaded

BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
"""What a process group is made of, by the kind of device: small messages go over the CPU."""
_AXES = ("data", "cfg", "ring", "ulysses", "tensor")


@dataclass
class Ranks:
    """What a rank knows about itself.

    Attributes:
        devices: the devices this process uses, by logical number; the first is where the pipeline executes.
        mesh: all ranks, slowest axis first; `ring` and `ulysses` are both there as soon as one is.
        data_coordinate: which replica this rank belongs to; the ranks of one replica make the same pictures.
        group: the ranks of this replica, for small messages on the CPU.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    devices: list[torch.device] = field(default_factory=lambda: [torch.device("cpu")])
    mesh: DeviceMesh | None = None
    data_degree: int = 1
    data_coordinate: int = 0
    group: Any = None
    long_group: Any = None
    store: Any = None

    @property
    def device(self) -> torch.device:
        """Where the pipeline executes."""
        return self.devices[0]

    @property
    def is_writer(self) -> bool:
        """Whether this rank writes its replica's files."""
        return self.rank % (self.world // self.data_degree) == 0

    @property
    def has_logical_devices(self) -> bool:
        """Whether this process has devices that a machine without accelerators only keeps the books of."""
        return self.device.type == "cpu" and self.device.index is not None

    def is_first_failure(self) -> bool:
        """Whether no other rank has failed before this one: what hits every rank is told once."""
        if self.store is None:
            return True
        try:
            return bool(self.store.add("dcompile/failures", 1) == 1)
        except RuntimeError:  # the store's host is gone, and with it the rank that would have told
            return True

    def agree(self, value: Any) -> Any:
        """The value of this replica's first rank, on all its ranks."""
        if self.world == self.data_degree:
            return value
        box = [value]
        dist.broadcast_object_list(box, group=self.group, group_src=0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order; waits for the slowest replica, however long it takes."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=self.long_group)
        return values

    def leave(self) -> None:
        """Ends the process group, where there is one."""
        if dist.is_initialized():
            dist.destroy_process_group()


def join(program: dict[str, Any]) -> Ranks:
    """Joins the job's process group and builds the plan's mesh.

    Raises:
        RunError: where the world or this machine's devices are not the plan's, or a launcher's variable is wrong.
    """
    adopt_slurm()
    joined = dist.is_initialized()
    world = dist.get_world_size() if joined else number_of("WORLD_SIZE", 1)
    if world != program["ranks"]:
        wanted = program["ranks"]
        start = f"start {wanted}, such as with `torchrun --nproc-per-node {program['ranks_per_node']}`"
        raise RunError(f"this job has {world} rank(s), but the plan is made for {wanted}: {start}")
    rank = dist.get_rank() if joined else number_of("RANK", 0)
    local_rank = number_of("LOCAL_RANK", rank % program["ranks_per_node"])
    ranks = Ranks(rank=rank, world=world, local_rank=local_rank, devices=_devices(program, local_rank))
    if ranks.device.type != "cpu":
        torch.accelerator.set_device_index(ranks.device)
    if world == 1:
        return ranks
    if program["device_kind"] == "cpu":
        torch.set_num_threads(1)
        if program["nodes"] == 1 and sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    timeout = timedelta(seconds=program["timeout_seconds"])
    if not joined:
        check_meeting_place()
        ranks.store, _, _ = next(dist.rendezvous("env://", timeout=timeout))
        dist.init_process_group(
            BACKENDS[program["device_kind"]], store=ranks.store, rank=rank, world_size=world, timeout=timeout
        )
    axes = dict(program["mesh_axes"])
    ranks.mesh = build_mesh(program["device_kind"], axes)
    ranks.data_degree = axes.get("data", 1)
    inner = world // ranks.data_degree
    ranks.data_coordinate = rank // inner
    for replica in range(ranks.data_degree):
        members = list(range(replica * inner, (replica + 1) * inner))
        group = dist.new_group(members, backend="gloo", timeout=timeout)
        if rank in members:
            ranks.group = group
    ranks.long_group = dist.new_group(backend="gloo", timeout=timedelta(days=30))
    return ranks


def start_alone(device_kind: str) -> None:
    """Starts a process group of this process alone, so that a script runs as it would under torchrun."""
    dist.init_process_group(BACKENDS[device_kind], store=dist.HashStore(), rank=0, world_size=1)


def build_mesh(device_kind: str, axes: dict[str, int]) -> DeviceMesh:
    """The mesh of all ranks; diffusers wants both of its context axes where one is used, so the other gets size 1."""
    if "ring" in axes or "ulysses" in axes:
        axes = {"ring": 1, "ulysses": 1, **axes}
    names = [axis for axis in _AXES if axis in axes]
    if not names:
        raise RunError("the plan has several ranks but no mesh axes")
    return init_device_mesh(device_kind, tuple(axes[axis] for axis in names), mesh_dim_names=tuple(names))


def _devices(program: dict[str, Any], local_rank: int) -> list[torch.device]:
    kind, count = program["device_kind"], program["devices_per_rank"]
    if kind == "cpu":
        # What rests in host memory and what is on the device have to be told apart.
        is_host = count == 1 and not offloaded(program)
        return [torch.device("cpu")] if is_host else [torch.device("cpu", number) for number in range(count)]
    available = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    current = torch.accelerator.current_accelerator()
    if current is None or current.type != kind:
        raise RunError(f"the plan is made for {kind} devices, and torch finds none on this machine")
    ids = program["device_ids"] or list(range(available))
    wanted = ids[local_rank * count : (local_rank + 1) * count]
    if len(wanted) < count or max(wanted) >= available:
        raise RunError(
            f"local rank {local_rank} needs {count} {kind} device(s) from number {local_rank * count} on, "
            f"and this machine has {available}"
        )
    return [torch.device(kind, number) for number in wanted]
