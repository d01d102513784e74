"""What goes wrong on a machine: exit 4, the cause in one sentence, no process and no half-written file left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import tiny_models as tiny
from dcompile.runtime.launch import run_plan

pytestmark = pytest.mark.slow


def ranks_alive() -> list[int]:
    """The ranks that this test's process, or one it started, has left."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "dcompile.runtime.worker" in (process.info["cmdline"] or []) and _is_ours(process)
    ]


def _is_ours(process: psutil.Process) -> bool:
    return str(os.getpid()) in process.environ().get("DCOMPILE_TEST", "")


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCOMPILE_TEST", str(os.getpid()))


def fails(plan: dict[str, Any], root: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Runs a plan that has to fail; what it said, without progress."""
    assert run_plan(tiny.write_plan(plan, folder), root, progress="none") == 4
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert ranks_alive() == []
    assert not list(Path(plan["program"]["output"]["dir"]).rglob(".*.part"))
    return said


def test_the_failing_rank_is_named_once(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tiny.plan("flux", axes={"data": 2}, out=tmp_path / "out")
    plan["program"]["run"]["rows"][1]["args"] = {"no_such_argument": 1}
    said = fails(plan, root, tmp_path, capfd)
    assert said.startswith("dcompile: rank 1: ")
    assert "no_such_argument" in said
    assert said.count("\n") == 1


def test_a_rank_that_is_killed(root: Path, tmp_path: Path) -> None:
    """Rank 0 waits for rank 1 in an exchange of every layer, where it would wait for the plan's ten minutes."""
    site, killed = tmp_path / "site", tmp_path / "killed"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, pathlib, signal, threading, time\n"
        "def end():\n"
        f"    pathlib.Path({str(killed)!r}).write_text(str(time.time()))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if os.environ.get('RANK') == '1':\n"
        "    threading.Timer(6, end).start()\n"
    )
    split = {"transformer": {"context": {"ring": 1, "ulysses": 2, "uneven": False}}}
    call = {"num_inference_steps": 5000}
    plan = tiny.plan("flux", axes={"ulysses": 2}, components=split, out=tmp_path / "out", call=call)
    path = tiny.write_plan(plan, tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    code = f"from pathlib import Path; from dcompile.runtime.launch import run_plan as r; raise SystemExit(r(Path({str(path)!r}), Path({str(root)!r}), progress='none'))"  # noqa: E501 - one line for -c
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert time.time() - float(killed.read_text()) < 30
    assert done.returncode == 4
    assert done.stderr.startswith("dcompile: rank 1: the process was killed by SIGKILL")
    assert ranks_alive() == []


def test_ctrl_c_leaves_nothing(root: Path, tmp_path: Path) -> None:
    plan = tiny.plan("flux", axes={"data": 2}, rows=50, out=tmp_path / "out", call={"num_inference_steps": 20})
    path = tiny.write_plan(plan, tmp_path)
    code = f"from pathlib import Path; from dcompile.runtime.launch import run_plan as r; raise SystemExit(r(Path({str(path)!r}), Path({str(root)!r})))"  # noqa: E501 - one line for -c
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    while " of " not in process.stderr.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert "death signal" not in said  # torchrun's own words
    deadline = time.monotonic() + 5
    while ranks_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ranks_alive() == []
    assert not list((tmp_path / "out").rglob("*.part"))
    assert list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize("damage", ["cut off", "edited"])
def test_a_plan_that_is_none(damage: str, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tiny.plan("flux", axes={"data": 2}, out=tmp_path / "out")
    plan["program"]["run"]["shares"] = "all"
    path = tiny.write_plan(plan, tmp_path)
    if damage == "cut off":
        path.write_text(path.read_text(encoding="utf-8")[:100], encoding="utf-8")
    assert run_plan(path, root, progress="none") == 4
    said = capfd.readouterr().err
    assert {"cut off": "is no JSON", "edited": "program.run.shares: 'all' is not"}[damage] in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_broken_weights(damage: str, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from diffusers import FluxTransformer2DModel

    shutil.copytree(root / "flux", tmp_path / "flux")
    layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", 2)
    file = tmp_path / "flux" / "transformer" / "diffusion_pytorch_model.safetensors"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:1000])
    capfd.readouterr()
    plan = tiny.plan("flux", axes={"tensor": 2}, components={"transformer": {"tensor": layout}}, out=tmp_path / "out")
    said = fails(plan, tmp_path, tmp_path, capfd)
    assert file.name in said
    assert {"missing": "is missing", "truncated": "is broken"}[damage] in said
    assert said.count("\n") == 1


def test_an_output_folder_that_is_a_file(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("")
    assert run_plan(tiny.write_plan(tiny.plan("flux", out=tmp_path / "out"), tmp_path), root) == 4
    said = capfd.readouterr().err
    assert "cannot write to the output folder" in said
    assert "Traceback" not in said


def test_a_full_disk(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    # /dev/full answers every write as a full disk does, and needs no privilege.
    (out / ".00000.png.part").symlink_to("/dev/full")
    plan = tiny.plan("flux", rows=1, out=out)
    assert "the disk is full" in fails(plan, root, tmp_path, capfd)
    assert not (out / "00000.png").exists()


def test_a_world_that_is_not_the_plans(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    code = (
        "import sys; from pathlib import Path; from dcompile.runtime.launch import run_plan as r; "
        "sys.exit(r(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    plan = tiny.write_plan(tiny.plan("flux", axes={"data": 2}, out=tmp_path / "out"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, str(plan), str(root)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4
    assert "torchrun started 3 rank(s), but the plan is made for 2" in done.stderr


def test_running_again_skips_what_is_complete(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    plan = tiny.plan("flux", rows=3, out=out)
    path = tiny.write_plan(plan, tmp_path)
    assert run_plan(path, root) == 0
    stamps = {file.name: file.stat().st_mtime_ns for file in out.glob("*.png")}
    (out / "00001.png").write_bytes(b"torn")
    plan["program"]["run"]["rows"][2]["seed"] = 7
    plan["program"]["devices_per_rank"] = 2
    plan["program"]["components"]["vae"]["device"] = 1
    capfd.readouterr()
    assert run_plan(tiny.write_plan(plan, tmp_path), root) == 0
    assert "1 of 3 pictures are complete already" in capfd.readouterr().err
    after = {file.name: file.stat().st_mtime_ns for file in out.glob("*.png")}
    assert [name for name in sorted(stamps) if stamps[name] == after[name]] == ["00000.png"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert [(entry["index"], entry["seed"]) for entry in manifest] == [(0, 42), (1, 43), (2, 7)]


SCRIPT = (
    "import sys\nfrom pathlib import Path\nfrom dcompile.runtime.launch import run_plan\n"
    "sys.exit(run_plan(Path(sys.argv[1]), Path(sys.argv[2]), progress='none'))\n"
)


def under_torchrun(plan: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """What a bundle's `run.py` does where torchrun starts two of it."""
    script = plan.with_name("run.py")
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    command += ["--nproc-per-node", "2", str(script), str(plan), str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_under_torchrun_an_error_of_every_rank_is_told_once(root: Path, tmp_path: Path) -> None:
    plan = tiny.plan("flux", axes={"data": 2}, out=tmp_path / "out", pipeline={"path": "no-such-folder"})
    done = under_torchrun(tiny.write_plan(plan, tmp_path), root)
    assert done.returncode != 0
    own = [line for line in done.stderr.splitlines() if line.startswith("dcompile: rank")]
    assert len(own) == 1
    assert "no-such-folder` does not exist" in own[0]


def test_started_by_srun_it_joins(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = tiny.write_plan(tiny.plan("flux", axes={"data": 2}, rows=2, out=out), tmp_path)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    variables = {"SLURM_NTASKS": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    tasks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(plan), str(root)],
            env={**os.environ, **variables, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [task.communicate(timeout=120)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert "joining a job of srun with 2 rank(s)" in said[0]
    assert [entry["index"] for entry in json.loads((out / "manifest.json").read_text())] == [0, 1]


def test_started_by_torchrun_it_joins(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = tiny.write_plan(tiny.plan("flux", axes={"data": 2}, rows=3, batch=2, out=out), tmp_path)
    done = under_torchrun(plan, root)
    assert done.returncode == 0, done.stderr
    assert "joining a job of torchrun with 2 rank(s)" in done.stderr
    assert [entry["index"] for entry in json.loads((out / "manifest.json").read_text())] == [0, 1, 2]


def test_a_rank_ends_with_what_it_said_and_without_its_threads() -> None:
    code = (
        "import threading, time; from dcompile.core.ending import end_rank; "
        "threading.Thread(target=time.sleep, args=(600,)).start(); print('said'); end_rank(3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "said\n")
