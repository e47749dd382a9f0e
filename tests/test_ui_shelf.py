"""The shelf: ids are names that were listed, and nothing else leads anywhere."""

import json
import time
from pathlib import Path

import pytest
from ui_ground import create

from minigrpo.errors import UserError
from minigrpo.ui.listing import Listing
from minigrpo.ui.shelf import Shelf, kind


def trl(folder: Path, *steps: int) -> Path:
    (folder / "completions").mkdir(parents=True)
    for step in steps:
        (folder / "completions" / f"completions_{step:05d}.parquet").write_bytes(b"PAR1")
    return folder


def born(run: Path, when: float) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"created": when}))


def test_a_folder_of_runs(tmp_path: Path) -> None:
    create(tmp_path, "a")
    create(tmp_path, "b")
    trl(tmp_path / "theirs", 10)
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").write_text("")
    shelf = Shelf(tmp_path)
    assert set(shelf.runs()) == {"a", "b", "theirs"}
    assert [kind(shelf.find(i)) for i in ("a", "theirs")] == ["run", "trl"]
    born(tmp_path / "a", time.time() + 50)
    assert shelf.latest() == "a"


def test_one_run_and_one_folder_of_trl(tmp_path: Path) -> None:
    run = create(tmp_path, "only")
    assert Shelf(run).runs() == {"only": run}
    assert Shelf(run).find("only") == run
    theirs = trl(tmp_path / "out", 1)
    assert Shelf(theirs).latest() == "out"
    assert Shelf(tmp_path / "missing").runs() == {}
    assert Shelf(tmp_path / "missing").latest() is None


@pytest.mark.parametrize("ident", ["..", ".", "", "/", "a/../a", "../a", "a/", "link", "b", "a\0", "/etc", "groups"])
def test_nothing_but_listed_names(tmp_path: Path, ident: str) -> None:
    create(tmp_path / "runs", "a")
    create(tmp_path, "outside")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match="no run called"):
        Shelf(tmp_path / "runs").find(ident)


def test_links_are_not_followed(tmp_path: Path) -> None:
    run = tmp_path / "a"
    run.mkdir()
    (run / "completions").symlink_to(trl(tmp_path / "elsewhere", 1) / "completions")
    assert kind(run) is None


def test_a_run_from_elsewhere_is_added_by_the_panel_alone(tmp_path: Path) -> None:
    create(tmp_path / "runs", "a")
    shelf = Shelf(tmp_path / "runs")
    shelf.add(create(tmp_path / "temp", "recorded"))
    assert set(shelf.runs()) == {"a", "recorded"}
    assert shelf.find("recorded") == tmp_path / "temp" / "recorded"


def test_the_hint_offers_the_nearest(tmp_path: Path) -> None:
    create(tmp_path, "sums-2")
    with pytest.raises(UserError, match="did you mean 'sums-2'"):
        Shelf(tmp_path).find("sums-3")
    with pytest.raises(UserError, match="nothing is trained yet"):
        Shelf(tmp_path / "empty").find("a")


@pytest.mark.parametrize("told", [True, "yesterday", -1, 1e30, None, [1]])
def test_a_birth_that_nobody_knows_is_that_of_the_file(tmp_path: Path, told: object) -> None:
    run = create(tmp_path)
    (run / "run.json").write_text(json.dumps({"created": told}))
    assert abs(Shelf(tmp_path).created(run) - time.time()) < 60


def test_rows(tmp_path: Path) -> None:
    run = create(tmp_path, "a")
    (run / "best.json").write_text('{"step": 3, "value": 0.5}')
    (run / "notes.jsonl").write_text(
        '{"key": "1/1-0", "star": true}\n{"key": "1/1-1", "star": true}\n[\n{"key": "1/1-1", "star": false}\n'
    )
    trl(tmp_path / "theirs", 10, 20)
    listing = Listing(Shelf(tmp_path))
    rows = {r["id"]: r for r in listing.rows()}
    assert set(rows["a"]) == set(rows["theirs"])
    a = rows["a"]
    assert (a["kind"], a["state"], a["model"], a["recipe"], a["task"]) == (
        "run",
        "starting",
        "smollm2",
        "default",
        "arithmetic()",
    )
    assert (a["best"], a["starred"], a["max_steps"]) == (0.5, 1, 100)
    assert a["size"] > 1000
    assert a["seconds"] >= 0
    assert (rows["theirs"]["kind"], rows["theirs"]["state"], rows["theirs"]["step"]) == ("trl", "recorded", 20)
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"pid_start": 1}))
    assert {r["id"]: r["state"] for r in listing.rows()}["a"] == "crashed"


def test_a_row_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(tmp_path)
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"state": "finished"}))
    listing = Listing(Shelf(tmp_path))
    first = listing.rows()
    monkeypatch.setattr("minigrpo.runfolder.row", None)
    assert listing.rows() == first


def test_every_star_counts(tmp_path: Path) -> None:
    notes = ['{"key": "1/1-0", "star": true}', json.dumps({"vote": "x" * (1 << 19)})]
    (create(tmp_path) / "notes.jsonl").write_text("\n".join(notes) + "\n")
    assert Listing(Shelf(tmp_path)).rows()[0]["starred"] == 1


def test_the_size_is_that_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(tmp_path)
    listing = Listing(Shelf(tmp_path))
    (before,) = listing.rows()
    assert before["path"] == str(run)
    (run / "adapter.bin").write_bytes(b"x" * 50_000)
    assert listing.rows()[0]["size"] == before["size"]  # a live run is not added up all the time
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"state": "finished"}))
    assert listing.rows()[0]["size"] > before["size"] + 40_000
    monkeypatch.setattr("minigrpo.ui.listing._FILES", 2)
    assert Listing(Shelf(tmp_path)).rows()[0]["size"] is None


def test_a_run_that_is_played_again_is_not_trained(tmp_path: Path) -> None:
    create(tmp_path, "a")
    played = create(tmp_path, "b") / "run.json"
    played.write_text(json.dumps(json.loads(played.read_text()) | {"replay": {"of": "a"}}))
    assert Shelf(tmp_path).live() == ["a"]


def test_broken_runs_have_a_row(tmp_path: Path) -> None:
    for name, content in (("a", "{"), ("b", "[]"), ("c", '{"state": ["running"], "phase": {}}'), ("d", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status.json").write_text(content)
        (tmp_path / name / "config.yaml").write_text("model: [1]\nrecipe: {a: &x [*x]}\n")
        (tmp_path / name / "events.jsonl").write_bytes(b'\xff\n{"event": "Step", "metrics": 3}\n')
    assert [r["state"] for r in Listing(Shelf(tmp_path)).rows()] == ["broken"] * 4
