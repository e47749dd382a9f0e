"""A recorded run played again: the same lines, step by step, and in a process without torch, model or network."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from browser import fake_trainer

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.ui import replay
from minigrpo.ui.shelf import Shelf


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_trainer.main([str(tmp_path_factory.mktemp("recorded") / "sums"), "--steps", "4", "--tokens", "2"])


def groups(run: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in g.items() if k != "t"} for g in runfolder.lines(run / "groups" / "000000.jsonl")]


def test_same_lines_in_a_new_run(recorded: Path, tmp_path: Path) -> None:
    begun = time.time()
    replay.play(recorded, tmp_path / "again", speed=1000).join(30)
    before, after = (list(runfolder.lines(r / "events.jsonl")) for r in (recorded, tmp_path / "again"))
    assert [e | {"t": 0} for e in before] == [e | {"t": 0} for e in after]
    assert all(begun <= e["t"] <= time.time() for e in after)
    assert groups(recorded) == groups(tmp_path / "again")
    for name in ("config.yaml", "tokens/000003.safetensors", "tokens/000004.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (recorded / name).read_bytes()
    facts, status = runfolder.read_run(tmp_path / "again"), runfolder.read_status(tmp_path / "again")
    assert (status["state"], status["step"], status["max_steps"]) == ("finished", 4, 4)
    assert facts["id"] != runfolder.read_run(recorded)["id"]
    assert facts["created"] >= begun
    assert facts["replay"] == {"of": "sums", "speed": 1000}


def _slow(recorded: Path, folder: Path) -> Path:
    """The recording with half a second between its events."""
    lines = list(runfolder.lines(recorded / "events.jsonl"))
    text = "".join(json.dumps(e | {"t": 100 + n / 2}) + "\n" for n, e in enumerate(lines))
    for part in ("run.json", "config.yaml", "status.json", "groups/000000.jsonl"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).write_bytes((recorded / part).read_bytes())
    (folder / "events.jsonl").write_text(text)
    return folder


def wait_for(run: Path, **fields: object) -> None:
    end = time.monotonic() + 10
    while any(runfolder.read_status(run).get(k) != v for k, v in fields.items()):
        assert time.monotonic() < end, runfolder.read_status(run)
        time.sleep(0.02)


def test_it_lives_while_it_plays_and_obeys(recorded: Path, tmp_path: Path) -> None:
    run = tmp_path / "again"
    thread = replay.play(_slow(recorded, tmp_path / "slow"), run, speed=2)
    wait_for(run, state="running", step=1)
    runfolder.send(run, "pause")
    wait_for(run, state="paused")
    step = runfolder.read_status(run)["step"]
    assert {g["step"] for g in groups(run)} == set(range(1, step + 1))  # no later group is there yet
    runfolder.send(run, "resume")
    wait_for(run, state="running")
    runfolder.send(run, "stop")
    thread.join(10)
    assert runfolder.read_status(run)["state"] == "stopped"


def test_player_plays_one_at_a_time_and_cleans_up(recorded: Path, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "runs")
    player = replay.Player(shelf, _slow(recorded, tmp_path / "slow"))
    first = player.start()
    assert player.start() == first == shelf.latest() == "recorded-slow"
    folder = shelf.find(first)
    player.close()
    assert not folder.parent.exists()
    assert shelf.runs() == {}
    assert not [t for t in threading.enumerate() if t.name == "replay"]


def test_nothing_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "RECORDED", tmp_path / "none")
    with pytest.raises(UserError, match="no recorded run"):
        replay.Player(Shelf(tmp_path)).start()


ALONE = """
import socket, sys, urllib.request
from pathlib import Path
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "peft", "bitsandbytes"):
            raise ImportError(name + " must not be needed")
sys.meta_path.insert(0, Nothing())
connect = socket.socket.connect
def local(self, address):
    assert address[0] in ("127.0.0.1", "::1"), address
    return connect(self, address)
socket.socket.connect = local
socket.getaddrinfo = (lambda ask: lambda host, *a, **k: ask({"127.0.0.1": host}[host], *a, **k))(socket.getaddrinfo)
from minigrpo.ui import panel
said = {}
def look():
    page = urllib.request.urlopen(said["url"]).read().decode()
    print("gradio_config" in page, "poll" in page)
panel.serve(Path(sys.argv[2]), port=0, recorded=Path(sys.argv[1]), ready=said.update, until=look)
"""


@pytest.mark.slow
def test_replay_needs_no_torch_and_no_network(recorded: Path, tmp_path: Path) -> None:
    pytest.importorskip("gradio")
    command = [sys.executable, "-c", ALONE, recorded, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True True\n", "")
