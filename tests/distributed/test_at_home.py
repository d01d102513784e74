"""What a component's own code may do between blocks that lie on several devices, and how often its inputs travel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dcompile.runtime.at_home import AtHome
from dcompile.runtime.device_map import _move, wrap_parts
from dcompile.runtime.errors import RunError
from dcompile.runtime.logical_devices import LogicalDevices
from torch import nn

ZERO, ONE, TWO = (torch.device("cpu", number) for number in range(3))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return x + self.inner(x) * given[0]


class Mixing(nn.Module):
    """Its own code joins what its blocks make with what lies at home, in the ways that the libraries' classes do."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.embed = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(4)])
        self.scale = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x: torch.Tensor, residuals: list[torch.Tensor]) -> torch.Tensor:
        x = self.embed(x)
        given = (x * 2, torch.ones(1))
        kept = []
        for block, residual in zip(self.blocks, residuals, strict=True):
            x = block(x, given)
            kept.append(x)
            if self.kind == "added":
                x = x + residual
            elif self.kind == "added in place":
                x += residual
            elif self.kind == "written":
                x[:, :1] = residual[:, :1]
        if self.kind == "joined":
            x = torch.cat(kept)
        return x.sum(0, keepdim=True) * self.scale


PLACES = {"": ZERO, "embed": ZERO, "blocks.0": ZERO, "blocks.1": ONE, "blocks.2": ONE, "blocks.3": TWO}
KINDS = ("nothing", "added", "added in place", "written", "joined")


def cut(module: nn.Module) -> None:
    for part in sorted(PLACES, key=len):
        _move(module.get_submodule(part), PLACES[part])
    wrap_parts(module, PLACES, ZERO)


@pytest.mark.parametrize("kind", KINDS)
def test_code_between_blocks_may_mix_devices(kind: str) -> None:
    torch.manual_seed(0)
    module, x = Mixing(kind), torch.randn(2, 4)
    residuals = [torch.randn(2, 4) for _ in range(4)]
    with torch.inference_mode():
        alone = module(x.clone(), residuals)
        with LogicalDevices():
            cut(module)
            out = module(x.to(ZERO), [one.to(ZERO) for one in residuals])
            assert out.device == ZERO
            out = out.cpu()
    assert torch.equal(out, alone)


def test_without_the_mode_it_would_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        AtHome, "__torch_function__", lambda _, function, types, args=(), kwargs=None: function(*args, **(kwargs or {}))
    )
    module = Mixing("added")
    with torch.no_grad(), LogicalDevices():
        cut(module)
        with pytest.raises(RunError, match="a transfer between them is missing"):
            module(torch.ones(2, 4).to(ZERO), [torch.ones(2, 4).to(ZERO)] * 4)


def test_what_all_blocks_are_given_goes_to_a_device_once() -> None:
    module = Mixing("nothing")
    with torch.no_grad(), LogicalDevices() as mode:
        cut(module)
        x, residuals = torch.ones(2, 4).to(ZERO), [torch.ones(2, 4).to(ZERO)] * 4
        counts = []
        for _ in range(2):
            before = mode.transfers
            module(x, residuals)
            counts.append(mode.transfers - before)
    # The sequence to 1, to 2 and home; of what is given what was at home to both, what was on the host to all three.
    every = 3 + 2 + 3
    assert counts == [every, every]


def test_what_was_written_into_is_sent_again() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x: torch.Tensor) -> Any:
            given = torch.ones(2, 4, device=x.device)
            first = self.blocks[0](x, (given,))
            given += 1
            return first, self.blocks[1](x, (given,))

    torch.manual_seed(0)
    module, x = Twice(), torch.randn(2, 4)
    places = {"": ZERO, "blocks.0": ONE, "blocks.1": ONE}
    with torch.no_grad():
        alone = module(x)
        with LogicalDevices():
            for part in sorted(places, key=len):
                _move(module.get_submodule(part), places[part])
            wrap_parts(module, places, ZERO)
            made = [one.cpu() for one in module(x.to(ZERO))]
    assert all(torch.equal(one, other) for one, other in zip(made, alone, strict=True))


def test_a_copy_is_let_go_with_its_original() -> None:
    mode = AtHome(ZERO)
    with LogicalDevices(), mode.at_work():
        sequence = torch.ones(2, 4).to(ZERO)
        assert mode.sent(sequence, ONE) is mode.sent(sequence, ONE)
        assert len(mode._copies) == 1
        del sequence
        assert len(mode._copies) == 0


def test_a_block_that_fails_leaves_no_mode_behind() -> None:
    module = Mixing("nothing")
    with torch.no_grad(), LogicalDevices():
        cut(module)
        with pytest.raises((RuntimeError, RunError)):
            module(torch.ones(2, 3).to(ZERO), [torch.ones(2, 4).to(ZERO)] * 4)
        assert (torch.ones(2).to(ZERO) + 1).device == ZERO
        out = module(torch.ones(2, 4).to(ZERO), [torch.ones(2, 4).to(ZERO)] * 4)
        assert out.device == ZERO
