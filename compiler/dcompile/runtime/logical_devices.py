"""Logical devices of a CPU process."""

from __future__ import annotations

from torch.overrides import TorchFunctionMode


class LogicalDevices(TorchFunctionMode):  # type: ignore[misc]
    """To be filled."""
