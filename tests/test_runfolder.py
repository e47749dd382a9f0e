"""The run folder: never half, never shared, never lost, and never trusted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minigrpo import runfolder
from minigrpo.config import Config, load
from minigrpo.errors import RunFailed, UserError
from minigrpo.events import Ended, Evaluated, Saved, Started, Step, to_line
from minigrpo.runfolder import checkpoints, durable, logs
from minigrpo.runfolder import status as status_room
from minigrpo.types import Completion, Example, Group, Part, Score, Span, mean, std

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runfolder.create(tmp_path / "a", Config())


def child(code: str, *args: object) -> "subprocess.Popen[str]":
    """Another process with the package at hand."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def weights(content: bytes = b"weights") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "adapter_model.safetensors").write_bytes(content)
        (folder / "state.json").write_text("{}")
        (folder / "adapter_model.safetensors").chmod(0o600)  # as safetensors leaves it

    return write


def steps(run: Path) -> list[str]:
    return sorted(p.name for p in (run / "checkpoints").iterdir())


# --- create


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


# --- lock


HOLD = """
import sys, time
from pathlib import Path
from minigrpo import runfolder
run = Path(sys.argv[1])
with runfolder.lock(run), runfolder.Status(run, 10) as status:
    status.set(state="running")
    print("held", flush=True)
    time.sleep(60)
"""


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


# --- status


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


# --- logs


def step_event(step: int) -> str:
    metrics = {"reward/mean": step / 10, "group/signal": 0.5}
    return to_line(Step(step, metrics, {"rollout": 1.0}))


def test_a_torn_tail_swallows_no_line(run: Path) -> None:
    (run / "events.jsonl").write_text(step_event(1) + "\n" + step_event(2)[:30])
    log = runfolder.Logs(run)
    log.event(step_event(3))
    log.close()
    assert [e["step"] for e in runfolder.lines(run / "events.jsonl")] == [1, 3]
    assert [e["step"] for e in runfolder.tail(run / "events.jsonl")] == [1, 3]
    (run / "events.jsonl").write_bytes(b'\xff\n[1]\nNaN\n{"event": "Ste')
    assert list(runfolder.lines(run / "events.jsonl")) == []


def test_groups_go_on_in_a_new_shard(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SHARD", 100)
    for gid in range(4):
        log = runfolder.Logs(run)
        log.group({"gid": gid, "text": "\u2028\ud800" + "x" * 60})
        log.close()
    assert sorted(p.name for p in (run / "groups").iterdir()) == [f"{n:06d}.jsonl" for n in range(4)]
    assert logs.lengths(run)["shard"] == 3


def test_a_full_disk_leaves_no_half_line(run: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from minigrpo import runfolder
log = runfolder.Logs(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
done = 0
try:
    while True:
        log.event('{"text": "%s"}' % ("x" * 150)); done += 1
except OSError: print(done)
"""
    done = int(child(code, run).communicate(timeout=30)[0])
    data = (run / "events.jsonl").read_bytes()
    assert done == 6
    assert data.count(b"\n") == 6
    assert data.endswith(b'"}\n')


# --- checkpoints


def test_checkpoints_keep_the_last_and_the_best(run: Path) -> None:
    for step, value in ((5, 0.1), (10, 0.9), (15, 0.3), (20, 0.9), (25, None), (100, 0.2)):
        path = runfolder.save_checkpoint(run, step, weights(), value=value)
    assert path == run / "checkpoints" / "step-000100"
    assert steps(run) == ["step-000010", "step-000025", "step-000100"]
    assert json.loads((run / "best.json").read_text()) == {"step": 10, "value": 0.9}
    found = runfolder.load_checkpoint(run)
    assert found is not None
    assert (found.step, found.path, found.rejected) == (100, path, ())
    assert (named := runfolder.load_checkpoint(run, 10)) is not None
    assert named.value == 0.9
    with pytest.raises(UserError, match="no checkpoint of step 7\nit has: 10, 25, 100"):
        runfolder.load_checkpoint(run, 7)


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run = runfolder.create(tmp_path / "a", Config())
        path = runfolder.save_checkpoint(run, 1, weights())
        adapter = runfolder.save_adapter(run, weights())
    finally:
        os.umask(before)
    files = [p for folder in (run, path, adapter) for p in folder.iterdir() if p.is_file()]
    assert len(files) >= 7
    assert {oct(p.stat().st_mode & 0o777) for p in files} == {"0o640"}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swap_for_link(path: Path) -> None:
    copy = path.with_name("copy")
    path.rename(copy)
    path.symlink_to(copy)


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "state.json", "MANIFEST.json"])
@pytest.mark.parametrize(
    "harm", [flip, Path.unlink, lambda p: os.truncate(p, 1), lambda p: p.unlink() or p.mkdir(), swap_for_link]
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(run: Path, name: str, harm: Callable[[Path], Any]) -> None:
    for step in (9900, 10000):  # by number, not by text
        path = runfolder.save_checkpoint(run, step, weights())
    harm(path / name)
    found = runfolder.load_checkpoint(run)
    assert found is not None
    assert found.step == 9900
    assert len(found.rejected) == 1
    with pytest.raises(UserError, match="no valid checkpoint"):
        runfolder.load_checkpoint(run, 10000)


def test_none_valid_is_an_error_and_none_at_all_is_none(run: Path) -> None:
    assert runfolder.load_checkpoint(run) is None
    flip(runfolder.save_checkpoint(run, 1, weights()) / "state.json")
    with pytest.raises(UserError, match="no valid checkpoint"):
        runfolder.load_checkpoint(run)


def test_a_foreign_checkpoint_is_passed_over_and_prunes_nothing(run: Path, tmp_path: Path) -> None:
    other = runfolder.create(tmp_path / "b", Config())
    foreign = runfolder.save_checkpoint(other, 999999, weights())
    runfolder.save_checkpoint(run, 1, weights())
    foreign.rename(run / "checkpoints" / foreign.name)
    for step in (2, 3):
        runfolder.save_checkpoint(run, step, weights(), keep_last=2)
    assert steps(run) == ["step-000002", "step-000003", "step-999999"]
    found = runfolder.load_checkpoint(run)
    assert found is not None
    assert found.step == 3
    assert "belongs to run" in found.rejected[0]


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "..", "", "link/secret"])
def test_a_manifest_cannot_name_files_outside(run: Path, tmp_path: Path, name: str) -> None:
    path = runfolder.save_checkpoint(run, 1, weights())
    (tmp_path / "secret").write_text("s")
    (path / "link").symlink_to(tmp_path)
    manifest = json.loads((path / "MANIFEST.json").read_text())
    manifest["files"][name] = checkpoints._fingerprint(tmp_path / "secret")
    (path / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=f"{re.escape(repr(name))} is missing"):
        runfolder.load_checkpoint(run)


def test_files_in_folders_are_sealed_too(run: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "c.bin").write_bytes(b"c")

    path = runfolder.save_checkpoint(run, 1, write)
    assert list(json.loads((path / "MANIFEST.json").read_text())["files"]) == ["a/b/c.bin"]
    (path / "note.txt").write_text("a file of the user's is no damage")
    assert runfolder.load_checkpoint(run) is not None
    (path / "a" / "b" / "c.bin").write_bytes(b"C")
    with pytest.raises(UserError, match="'a/b/c.bin' is damaged"):
        runfolder.load_checkpoint(run)


def test_pruning_does_not_follow_links(run: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    old = runfolder.save_checkpoint(run, 1, weights())
    (old / "link").symlink_to(precious)
    (run / "checkpoints" / "step-000000").symlink_to(precious)
    (run / "checkpoints" / ".tmp-x").symlink_to(precious)
    (run / "checkpoints" / ".old-y").symlink_to(precious)
    for step in (2, 3, 4):
        runfolder.save_checkpoint(run, step, weights(), keep_last=1)
    with runfolder.lock(run):
        pass
    assert (precious / "thesis.tex").read_text() == "years of work"
    assert not old.exists()


def test_a_full_disk_prunes_tries_again_and_then_ends_the_run(run: Path) -> None:
    for step in (1, 2):
        runfolder.save_checkpoint(run, step, weights())
    tries: list[int] = []

    def full(folder: Path) -> None:
        tries.append(len([s for s in steps(run) if s.startswith("step")]))
        (folder / "half").write_bytes(b"x")
        raise RuntimeError("I/O error: No space left on device (os error 28)")  # as safetensors says it

    with pytest.raises(RunFailed, match="no space for a checkpoint in .*bytes are free.*minigrpo resume"):
        runfolder.save_checkpoint(run, 3, full)
    assert tries == [2, 1]
    assert steps(run) == ["step-000002"]
    assert (found := runfolder.load_checkpoint(run)) is not None
    assert found.step == 2


def test_the_adapter_is_whole_or_the_older_one(run: Path) -> None:
    runfolder.save_adapter(run, weights(b"one"))

    def dies(folder: Path) -> None:
        (folder / "adapter_model.safetensors").write_bytes(b"ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runfolder.save_adapter(run, dies)
    assert (run / "adapter" / "adapter_model.safetensors").read_bytes() == b"one"
    runfolder.save_adapter(run, weights(b"two"))
    assert (run / "adapter" / "adapter_model.safetensors").read_bytes() == b"two"
    assert not list(run.glob(".*-adapter*"))


def test_saving_a_step_twice_replaces_it(run: Path) -> None:
    runfolder.save_checkpoint(run, 1, weights(b"one"))
    runfolder.save_checkpoint(run, 1, weights(b"two"))
    assert (run / "checkpoints" / "step-000001" / "adapter_model.safetensors").read_bytes() == b"two"
    assert steps(run) == ["step-000001"]


# --- rewind


def test_rewind_doubles_no_step_and_loses_no_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SHARD", 300)
    log = runfolder.Logs(run)
    log.event(to_line(Started(0, 6, {}, 1)))
    for step in range(1, 7):
        for gid in "ab":
            log.group({"step": step, "gid": gid, "text": "x" * 60})
        log.event(step_event(step))
        if step in (3, 5):
            runfolder.save_checkpoint(run, step, weights(), value=step / 10)
            log.event(to_line(Saved(step, "…")))
    log.event(to_line(Ended(6, "failed", "out of memory")))
    log.close()
    flip(run / "checkpoints" / "step-000005" / "state.json")
    before = list(runfolder.lines(run / "events.jsonl"))
    groups = [g for p in sorted((run / "groups").iterdir()) for g in runfolder.lines(p)]

    found = runfolder.load_checkpoint(run)
    runfolder.rewind(run, found)

    after = list(runfolder.lines(run / "events.jsonl"))
    assert [(e["event"], e["step"]) for e in after] == [
        ("Started", 0), ("Step", 1), ("Step", 2), ("Step", 3), ("Saved", 3),
    ]  # fmt: skip
    kept = [g for p in sorted((run / "groups").iterdir()) for g in runfolder.lines(p)]
    assert {g["step"] for g in kept} == {1, 2, 3}
    aside = sorted((run / "superseded").iterdir())
    moved = [e for p in aside if p.is_file() for e in runfolder.lines(p)]
    assert len(after) + len(kept) + len(moved) == len(before) + len(groups)
    assert steps(run) == ["step-000003"]
    assert (run / "superseded" / "step-000005-0").is_dir()
    assert json.loads((run / "best.json").read_text())["step"] == 3

    runfolder.rewind(run, found)  # nothing more to move
    assert sorted((run / "superseded").iterdir()) == aside


def test_rewind_to_the_very_start(run: Path) -> None:
    log = runfolder.Logs(run)
    log.event(to_line(Started(0, 6, {}, 1)))
    log.group({"step": 1})
    log.close()
    runfolder.rewind(run, None)
    assert (run / "events.jsonl").stat().st_size == (run / "groups" / "000000.jsonl").stat().st_size == 0
    assert sorted(p.name for p in (run / "superseded").iterdir()) == ["events-0.jsonl", "groups-000000-0.jsonl"]


# --- control


def test_commands_are_obeyed_once_and_answered(run: Path) -> None:
    stale = runfolder.send(run, "stop")
    control = runfolder.Control(run)
    assert runfolder.reply(run, stale) is not None
    assert control.poll() == []
    idents = [runfolder.send(run, name) for name in ("pause", "checkpoint", "resume")]
    found = control.poll()
    assert [c.id for c in found] == idents
    assert [c.name for c in found] == ["pause", "checkpoint", "resume"]
    assert control.poll() == []
    assert runfolder.reply(run, idents[0]) is None
    control.ack(found[0], True, "paused after step 3")
    answer = runfolder.reply(run, idents[0])
    assert answer is not None
    assert (answer["ok"], answer["note"], answer["command"]) == (True, "paused after step 3", "pause")
    assert len(list((run / "control" / "in").iterdir())) == 2
    with pytest.raises(UserError, match=r"no command called 'stopp'\ndid you mean 'stop'"):
        runfolder.send(run, "stopp")


def test_what_is_no_command_is_refused(run: Path) -> None:
    control = runfolder.Control(run)
    box = run / "control" / "in"
    (box / "a.json").write_text("{")
    (box / "b.json").write_text(json.dumps({"command": ["rm"]}))
    (box / "c.json").write_text(json.dumps({"command": "stop", "pad": "x" * 100_000}))
    (box / "d.json").symlink_to("/etc/passwd")
    (box / "e.json").mkdir()
    os.mkfifo(box / "f.json")
    (box / ".tmp-g.json").write_text("{")  # still being written
    assert control.poll() == []
    answers = [runfolder.reply(run, name) for name in "abcdef"]
    assert all(a is not None and a["ok"] is False for a in answers)
    assert [p.name for p in box.iterdir()] == [".tmp-g.json"]
    assert Path("/etc/passwd").exists()


# --- group lines


def completion(text: str, reward: float) -> Completion:
    score = Score(reward, lenient=1.0, rule="last", extracted=text, start=0, end=1)
    spans = [Span("thought", 0, 1, 0.5), Span("answer", 1, 2)]
    return Completion([7, 8], text, spans, "stop", [-0.1, -0.2], {"number": score}, reward, {"exit": 1})


def line_of(*rewards: float, answer: Any = 3, parts: list[Part] | None = None) -> dict[str, Any]:
    completions = [completion(f"{r}", r) for r in rewards]
    group = Group("g1", Example("e1", [{"role": "user", "content": "1+2?"}], answer), [1], completions, 8)
    parts = parts or [Part("number", lambda c, e: 0.0, 1.0)]
    return runfolder.group_line(
        4, group, [[0.5, 0.25]] * len(rewards), [[0.1, 0.2]] * len(rewards), True, parts, "parallel()"
    )


def test_a_group_line_has_everything_in_full() -> None:
    line = line_of(1.0, 0.0, 1.0)
    assert (line["step"], line["gid"], line["example_id"], line["split"]) == (4, "g1", "e1", "train")
    assert (line["prompt"], line["answer"], line["kept"]) == ([{"role": "user", "content": "1+2?"}], 3, True)
    assert (line["signal"], round(line["mean"], 3), round(line["std"], 3)) == ("mixed", 0.667, 0.577)
    assert (line["plan"], line["v"]) == ("parallel()", 1)
    first, _, third = line["completions"]
    assert (first["i"], first["n_tok"], first["finish"], first["reward"]) == (0, 2, "stop", 1.0)
    assert first["plan"] == {"exit": 1}
    assert first["parts"]["number"] == {
        "value": 1.0, "weight": 1.0, "lenient": 1.0, "status": "ok", "rule": "last", "extracted": "1.0",
        "start": 0, "end": 1, "note": "",
    }  # fmt: skip
    assert first["spans"][0] == {"kind": "thought", "start": 0, "end": 1, "share": 0.5, "adv": 0.5, "weight": 0.1}
    assert (first["dup_of"], third["dup_of"]) == (None, 0)
    json.dumps(line, allow_nan=False)


def test_signal_says_why_a_group_teaches_nothing() -> None:
    two = [Part(name, lambda c, e: 0.0, weight) for name, weight in (("number", 1.0), ("short", 0.5), ("bad", -1.0))]
    assert line_of(1.0, 1.0)["signal"] == "all_right"
    assert line_of(0.0, 0.0)["signal"] == line_of(-1.0, -1.0)["signal"] == "all_wrong"
    assert line_of(1.0, 1.0, parts=two)["signal"] == "equal"
    assert line_of(1.5, 1.5, parts=two)["signal"] == "all_right"
    assert line_of(1.0, 0.5, parts=two)["signal"] == "mixed"


def test_mean_and_std_of_few() -> None:
    assert (mean([]), std([]), mean([3.0]), std([3.0])) == (0.0, 0.0, 3.0, 0.0)
    assert (mean(x for x in (1.0, 3.0)), std([1.0, 3.0])) == (2.0, 2**0.5)


def test_an_answer_that_is_no_json_is_kept_as_text() -> None:
    assert line_of(1.0, answer={1, 2})["answer"] == "{1, 2}"
    assert line_of(1.0, answer={"target": 24, "numbers": (3, 8)})["answer"] == {"target": 24, "numbers": [3, 8]}


# --- reading


def test_runs_lists_healthy_and_broken_folders(run: Path, tmp_path: Path) -> None:
    log = runfolder.Logs(run)
    for step in range(1, 4):
        log.event(step_event(step))
    log.close()
    with runfolder.Status(run, 100, step=3) as status:
        status.end("stopped", "asked to")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_text("{")
    (tmp_path / "half" / "config.yaml").write_text("[" * 1000)
    assert runfolder.runs(tmp_path) == [
        {
            "name": "a", "state": "stopped", "step": 3, "max_steps": 100, "reward": 0.3, "signal": 0.5,
            "model": "smollm2", "recipe": "default", "path": str(run),
        },
        {
            "name": "half", "state": "broken", "step": None, "max_steps": None, "reward": None, "signal": None,
            "model": None, "recipe": None, "path": str(tmp_path / "half"),
        },
    ]  # fmt: skip
    assert runfolder.runs(tmp_path / "absent") == []


def test_a_long_run_is_read_from_its_ends(run: Path) -> None:
    start, end = Evaluated(0, 64, 0.2, 0.3, 0.0, 12.0), Evaluated(60_000, 64, 0.9, 0.9, 0.0, 8.0)
    body = "\n".join(step_event(step) for step in range(1, 60_001))
    (run / "events.jsonl").write_text("\n".join([to_line(start), body, to_line(end), ""]))
    runfolder.save_adapter(run, lambda folder: (folder / "adapter_config.json").write_text("{}") and None)
    before = time.thread_time()
    found = runfolder.summary(run)
    listed = runfolder.runs(run.parent)
    assert time.thread_time() - before < 0.2  # reading it all takes longer
    assert (found["start"]["strict"], found["end"]["strict"], found["end"]["step"]) == (0.2, 0.9, 60_000)
    assert found["metrics"]["reward/mean"] == 6000.0
    assert found["adapter"] == str(run / "adapter")
    assert listed[0]["reward"] == 6000.0
    with pytest.raises(UserError, match="not a run folder"):
        runfolder.summary(run.parent)


def test_a_newer_schema_is_refused_by_name(run: Path) -> None:
    facts = runfolder.read_run(run)
    (run / "run.json").write_text(json.dumps(facts | {"schema": 2, "versions": {"minigrpo": "9.1"}}))
    with pytest.raises(UserError, match=r"schema 2, this minigrpo reads 1\nuse minigrpo 9\.1"):
        runfolder.read_run(run)


def test_the_room_needs_no_torch() -> None:
    code = "import sys; import minigrpo.runfolder, minigrpo.sinks; print({'torch', 'peft'} & set(sys.modules))"
    assert child(code).communicate(timeout=30)[0].strip() == "set()"
