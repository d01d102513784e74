"""Every code with its name, from the stages that own them."""

from __future__ import annotations

from dcompile.core.codes import ADVICE, FACTS, MEMORY, PARALLEL
from dcompile.recipe.faults import FAULTS as SHAPE
from dcompile.source.faults import FAULTS as TEXT

CODES: dict[str, str] = {**TEXT, **SHAPE, **FACTS, **PARALLEL, **MEMORY, **ADVICE}
