"""The run folder: never half, never shared, never lost, and never trusted."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runfolder_ground import (  # noqa: F401
    HOLD,
    child,
    run,
    steps,
    weights,
)

from minigrpo import runfolder
from minigrpo.config import Config, load
from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.runfolder import status as status_room


def test_create_writes_the_birth_certificate_and_the_config(run: Path) -> None:
    facts = runfolder.read_run(run)
    assert facts["schema"] == 1
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(facts["versions"]) == {"python", "minigrpo", "torch", "transformers", "peft", "bitsandbytes"}
    assert load(run / "config.yaml") == Config()
    runfolder.describe(run, base={"name": "smollm2", "hash": "x"}, tokenizer_hash="y")
    again = runfolder.read_run(run)
    assert (again["id"], again["tokenizer_hash"]) == (facts["id"], "y")
    assert (facts["base"], facts["tokenizer_hash"], facts["world_size"]) == ({"name": "smollm2"}, "", 1)
    assert runfolder.state(run) == "starting"


def test_create_never_takes_a_folder_that_exists(run: Path) -> None:
    with pytest.raises(UserError, match=r"exists already\n.*minigrpo resume .*a`"):
        runfolder.create(run, Config())
    (run.parent / "plain").mkdir()
    with pytest.raises(UserError, match="exists already\ngive a new name"):
        runfolder.create(run.parent / "plain", Config())


@pytest.mark.parametrize(
    "name", ["..", "", "-rf", "a.", "x" * 65, "a b", "CON", "nul.txt", "a\u202eb", "é", "a\0b", ".tmp", "a\n"]
)
def test_create_refuses_names_that_are_no_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="name of a run"):
        runfolder.create(os.path.join(tmp_path, "new", name) if name else "", Config())
    assert list(tmp_path.iterdir()) == []


def test_create_says_why_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        runfolder.create(tmp_path / "file" / "run", Config())
    with pytest.raises(UserError, match="cannot write"):
        runfolder.create("/proc/run", Config())


def test_create_leaves_nothing_behind_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "replace", full)
    with pytest.raises(UserError, match="no space left"):
        runfolder.create(tmp_path / "a", Config())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_processes_never_share_a_default_name(tmp_path: Path) -> None:
    code = """
import os, sys, time
sys.path.insert(0, os.getcwd())
from minigrpo import runfolder
from minigrpo.config import Config
os.chdir(sys.argv[1])
while time.time() < float(sys.argv[2]): pass
print(*[runfolder.create(None, Config()) for _ in range(5)], flush=True)
"""
    start = time.time() + 1.5
    both = [child(code, tmp_path, start) for _ in range(2)]
    names = [name for p in both for name in p.communicate(timeout=30)[0].split()]
    assert len(names) == len(set(names)) == 10
    assert all(name.startswith("runs/default-") for name in names)


def test_a_second_process_is_told_who_holds_the_run_and_a_kill_frees_it(run: Path) -> None:
    holder = child(HOLD, run)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(UserError, match=f"in use by process {holder.pid} on "), runfolder.lock(run):
            pass
        assert runfolder.state(run) == "running"
    finally:
        holder.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 2
    while runfolder.state(run) != "crashed" and time.monotonic() < deadline:  # still a zombie: nobody waited for it
        time.sleep(0.02)
    assert runfolder.state(run) == "crashed"
    holder.communicate()
    with runfolder.lock(run):
        pass


@pytest.mark.slow
def test_of_two_processes_one_gets_the_lock(run: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from minigrpo import runfolder
from minigrpo.errors import UserError
while time.time() < float(sys.argv[2]): pass
try:
    with runfolder.lock(Path(sys.argv[1])):
        print("won", flush=True); sys.stdin.readline()
except UserError: print("lost", flush=True)
"""
    start = time.time() + 1.5
    both = [child(code, run, start) for _ in range(2)]
    assert sorted(p.stdout.readline() for p in both if p.stdout) == ["lost\n", "won\n"]
    for process in both:
        process.communicate(timeout=30)


def test_the_lock_sweeps_what_a_killed_process_left(run: Path) -> None:
    runfolder.save_checkpoint(run, 1, weights())
    (run / "checkpoints" / "step-000001").rename(run / "checkpoints" / ".old-step-000001")  # killed between two renames
    (run / "checkpoints" / ".tmp-2-99").mkdir()
    (run / ".tmp-adapter-99").mkdir()
    with runfolder.lock(run):
        assert steps(run) == ["step-000001"]
        assert not list(run.glob(".tmp-*"))


def test_links_out_of_the_folder_are_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run / "groups").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"), runfolder.lock(run):
        pass
    with pytest.raises(UserError, match="is a link"):
        runfolder.Logs(run)
    (run / "control").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        runfolder.send(run, "stop")


def test_status_beats_and_has_the_last_word(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with runfolder.Status(run, 20, beat=0.05) as status:
        first = runfolder.read_status(run)
        assert (first["state"], first["phase"], first["pid"]) == ("starting", "loading", os.getpid())
        status.set(state="running", phase="sampling", done=3, of=64, step=4)
        assert runfolder.state(run) == "running"
        time.sleep(0.3)
        later = runfolder.read_status(run)
        assert later["heartbeat"] > first["heartbeat"]
        assert (later["phase"], later["done"], later["of"], later["step"]) == ("sampling", 3, 64, 4)
        with pytest.raises(TypeError, match="no field foo"):
            status.set(foo=1)
        with pytest.raises(ValueError, match="unknown state"):
            status.set(state="happy")
        writes: list[str] = []
        real = durable.replace
        monkeypatch.setattr(
            durable, "replace", lambda path, data, **more: (writes.append(data), real(path, data, **more))
        )
        status.end("stopped", "asked to")
    assert len(writes) == 1
    time.sleep(0.1)
    last = runfolder.read_status(run)
    assert (last["state"], last["reason"], last["phase"]) == ("stopped", "asked to", None)


def test_status_records_the_error_that_passes_through(run: Path) -> None:
    with pytest.raises(ZeroDivisionError), runfolder.Status(run, 5):
        raise ZeroDivisionError("x")
    assert runfolder.read_status(run)["state"] == "failed"
    assert runfolder.read_status(run)["last_error"] == "ZeroDivisionError: x"


def test_readers_see_through_reused_pids_other_hosts_and_rubbish(run: Path) -> None:
    file = run / "status.json"
    fields = status_room.newborn(3) | {"state": "running"}

    def state(**changed: Any) -> str:
        file.write_text(json.dumps(fields | changed))
        return runfolder.state(run)

    assert state() == "running"
    assert state(pid_start=1) == "crashed"
    assert state(pid=-1) == state(pid="../self") == state(pid=True) == "crashed"
    assert state(state="finished", pid_start=1) == "finished"
    assert state(host="mars") == "running"
    assert state(host="mars", heartbeat=time.time() - 31) == "crashed"
    assert state(state="odd") == "broken"
    file.write_text("[" * 100_000)
    assert runfolder.state(run) == "broken"
    file.unlink()
    os.mkfifo(file)  # opening it must not block
    assert runfolder.state(run) == "broken"
