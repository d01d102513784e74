"""The books of a box with several devices, kept on the CPU."""

from __future__ import annotations

import pytest
import torch
from dcompile.runtime.device_map import _between, _wrap
from dcompile.runtime.errors import RunError
from dcompile.runtime.logical_devices import LogicalDevices
from torch import nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor

ZERO, ONE = torch.device("cpu", 0), torch.device("cpu", 1)


def test_a_tensor_answers_with_its_logical_device() -> None:
    with LogicalDevices():
        made, host = torch.ones(2, device="cpu:1"), torch.ones(2)
        assert made.device == ONE
        assert host.device == torch.device("cpu")
        assert (made + 1).device == ONE
        assert torch.zeros_like(made).device == ONE
        assert host.to("cpu:0").device == ZERO
        assert host.to(made).device == ONE
        assert torch.ones(2, device=ZERO).type_as(made).device == ONE  # `to` with another tensor's dtype and device
        assert made.cpu().device == torch.device("cpu")
        assert host.device == torch.device("cpu")


def test_mixing_two_devices_is_refused() -> None:
    with LogicalDevices():
        one, zero = torch.ones(2, device=ONE), torch.ones(2, device=ZERO)
        with pytest.raises(RunError, match="a transfer between them is missing"):
            one + zero
        with pytest.raises(RunError, match="missing"):
            torch.cat([one, zero])
        with pytest.raises(RunError, match="missing"):
            one + torch.ones(2)
        with pytest.raises(RunError, match="NumPy"):
            one.numpy()


def test_host_scalars_and_host_indices_may_join() -> None:
    with LogicalDevices():
        one = torch.ones(4, device=ONE)
        assert (one * torch.tensor(2.0)).device == ONE
        assert one[torch.tensor([0, 2])].device == ONE


def test_one_index_is_a_number_wherever_it_is() -> None:
    with LogicalDevices():
        table, step = torch.arange(4.0), torch.tensor(2, device=ONE)
        assert table[step].device == torch.device("cpu")
        assert torch.ones(4, device=ZERO)[step].device == ZERO
        with pytest.raises(RunError, match="missing"):
            table[torch.tensor([0, 2], device=ONE)]


def test_a_module_moves_with_its_parameters() -> None:
    with LogicalDevices():
        layer = nn.Linear(2, 2).to("cpu:1")
        assert layer.weight.device == ONE
        with pytest.raises(RunError, match="`linear` mixes"):
            layer(torch.ones(1, 2, device=ZERO))
        _wrap(layer, _between, ONE, ZERO)
        assert layer(torch.ones(1, 2, device=ZERO)).device == ZERO


def test_a_tensor_inside_of_vmap_is_where_it_was() -> None:
    with LogicalDevices():
        lengths, columns = torch.tensor([1, 2], device=ONE), torch.arange(3, device=ONE)
        below = torch.vmap(lambda length: columns < length)(lengths)
        assert below.device == ONE
        assert below.tolist() == [[True, False, False], [True, True, False]]


def test_a_collective_that_is_not_waited_for_is_where_its_result_is() -> None:
    with LogicalDevices():
        pending = AsyncCollectiveTensor(torch.ones(4, device=ONE))
        assert pending.device == ONE
        assert pending.reshape(2, 2).wait().device == ONE
        assert (pending + 1).device == ONE
