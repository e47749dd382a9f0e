"""The run folder: never half, never shared, never lost, and never trusted."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runfolder_ground import (  # noqa: F401
    child,
    flip,
    run,
    step_event,
    steps,
    swap_for_link,
    weights,
)

from minigrpo import runfolder
from minigrpo.config import Config
from minigrpo.errors import RunFailed, UserError
from minigrpo.runfolder import checkpoints, logs


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
