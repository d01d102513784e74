"""The variables of a launcher: what they say, and one sentence where they say nothing that can be meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dcompile.runtime.errors import RunError
from dcompile.runtime.job import adopt_slurm, check_meeting_place, number_of, surrounding_job

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_LAUNCH_NODE_IPADDR")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LAUNCHERS, *SLURM):
        monkeypatch.setenv(name, "")  # so that what a test sets is taken back
        monkeypatch.delenv(name)


def test_no_launcher() -> None:
    assert surrounding_job() is None
    adopt_slurm()
    assert "RANK" not in os.environ


def test_torchrun_comes_before_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}.items():
        monkeypatch.setenv(name, value)
    assert surrounding_job() == ("torchrun", 1, 4)


def test_srun_of_several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert surrounding_job() is None
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert surrounding_job() == ("srun", 1, 2)
    adopt_slurm()
    found = {name: os.environ[name] for name in LAUNCHERS}
    assert found == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20007",
    }
    check_meeting_place()


@pytest.mark.parametrize("text", ["x", "", "-1", "1.0", " 1", "\u00b2", "9" * 5000])
@pytest.mark.parametrize("variable", ["RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"])
def test_what_is_no_number_is_named(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("SLURM_PROCID", "SLURM_NTASKS") if variable.startswith("SLURM") else ("RANK", "WORLD_SIZE")
    for name, value in {**dict(zip(own, ("0", "2"), strict=True)), variable: text}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError) as caught:
        surrounding_job()
    assert f"`{variable}` is `{text[:40]}`" in str(caught.value)
    with pytest.raises(RunError):
        number_of(variable, 0)


def test_ranks_count_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunError, match="`RANK` is `2`, and `WORLD_SIZE` is `2`"):
        surrounding_job()


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "`MASTER_ADDR` is not set"),
        ({"MASTER_ADDR": "localhost"}, "`MASTER_PORT` is not set"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "http"}, "`MASTER_PORT` is `http`"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "70000"}, "from 1 to 65535"),
    ],
)
def test_where_the_ranks_meet(variables: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError, match=says):
        check_meeting_place()


def test_a_run_says_it_in_one_sentence(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    plan = json.loads((root / "tests/golden/plans/quickstart.json").read_text(encoding="utf-8"))
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from dcompile.runtime.launch import run_plan as r; "
        "sys.exit(r(Path('plan.json'), Path('.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "RANK": "first", "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 4
    assert done.stderr == "dcompile: the variable `RANK` is `first`, and has to be a whole number from 0\n"
