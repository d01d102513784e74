"""A small run of the oracle: no recipe may be refused that runs, or accepted that fails or differs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from . import recipes
from .ask import ACCEPTED_BUT_FAILS, AGREED_NO, AGREED_YES, REFUSED_BUT_RUNS, ask

pytestmark = pytest.mark.slow
SEED, COUNT = 7, 70


def test_verdict_and_run_agree(root: Path) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for index in range(COUNT):
        _, recipe = recipes.recipe_of(SEED, index)
        finding = ask(recipe, root)
        counts[finding.outcome] += 1
        if finding.outcome in (REFUSED_BUT_RUNS, ACCEPTED_BUT_FAILS):
            wrong.append((index, finding.outcome, finding.codes, finding.error, finding.difference, recipe))
    print(dict(counts))
    assert not wrong, wrong
    assert counts[AGREED_YES] > COUNT // 4
    assert counts[AGREED_NO] > COUNT // 20
