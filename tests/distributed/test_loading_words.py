"""Loading that takes long says so, and loading that does not says nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("rich")

import tiny_models as tiny
from dcompile.runtime import launch
from dcompile.runtime.progress import Loading


def test_slow_loading_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Loading, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(Loading, "THEN_SECONDS", 0.02)
    with Loading("plain", 53 * 2**30, is_speaker=True):
        deadline = time.monotonic() + 10
        said = ""
        while said.count("\n") < 2 and time.monotonic() < deadline:
            said += capsys.readouterr().err
            time.sleep(0.01)
    assert set(said.splitlines()) == {"dcompile: loading 53.0 GiB, 0 s"}
    capsys.readouterr()
    time.sleep(0.06)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("style", "is_speaker"), [("none", True), ("plain", False)])
def test_other_ranks_are_silent(
    style: str, is_speaker: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Loading, "FIRST_SECONDS", 0.0)
    with Loading(style, 1, is_speaker=is_speaker):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_loading_that_fails_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading("plain", 1, is_speaker=True)
    with pytest.raises(OSError, match="gone"), loading:
        raise OSError("gone")
    assert not loading._thread.is_alive()


@pytest.mark.parametrize(("axes", "words"), [({"data": 2}, "on 2 ranks"), ({}, "on 1 rank")])
def test_a_run_opens_with_what_it_makes_and_where(
    axes: dict[str, int],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(launch, "start_ranks", lambda *_: None)
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    path = tiny.write_plan(tiny.plan("flux", axes=axes, rows=3, out=tmp_path / "out"), tmp_path)
    for progress, said in (("plain", f"dcompile: 3 pictures into {tmp_path / 'out'}/, {words}\n"), ("none", "")):
        assert launch.run_plan(path, tmp_path, progress=progress) == 0
        assert capsys.readouterr().err == said
