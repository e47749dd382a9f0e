"""The index of a run's groups: reads what is new, notices what is gone, and survives whatever stands in a line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ui_ground import answer, create, group, index, line, mixed, put, run  # noqa: F401

from minigrpo import runfolder
from minigrpo.runfolder import logs
from minigrpo.ui import index as module
from minigrpo.ui.index import SHOWS, SORTS, Index
from minigrpo.ui.library import Library
from minigrpo.ui.shards import Shards


def keys(found: Index, *query: Any) -> list[str]:
    return [found.entries[p].key for p in found.pick(*query)]


def append(run: Path, data: bytes, shard: int = 0) -> None:
    (run / "groups").mkdir(exist_ok=True)
    with open(run / "groups" / f"{shard:06d}.jsonl", "ab") as file:
        file.write(data)


def test_only_what_is_new_is_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1))
    found = index(run)
    assert (found.steps, len(found.entries)) == ([1], 2)
    read: list[bytes] = []
    parse = module.parse
    monkeypatch.setattr("minigrpo.ui.shards.parse", lambda data: read.append(data) or parse(data))
    found.refresh()
    assert read == []
    put(run, 2, mixed(2, 0))
    found.refresh()
    assert len(read) == 1
    assert (found.steps, len(found.entries)) == ([1, 2], 3)
    assert list(found.history.steps) == [1, 2]
    assert found.by_key == {"1/1-0": 0, "1/1-1": 1, "2/2-0": 2}
    group = found.group(2)
    assert group is not None
    assert [a.text for a in group.answers][0] == "It is 72 "


def test_a_torn_tail_waits_until_it_is_whole(run: Path) -> None:
    data = json.dumps(line(mixed())).encode() + b"\n"
    append(run, data[:100])
    found = index(run)
    assert (len(found.entries), found.source.damaged) == (0, 0)
    append(run, data[100:-1])
    found.refresh()
    assert not found.entries
    append(run, b"\n")
    found.refresh()
    assert (len(found.entries), found.source.damaged) == (1, 0)


def test_damaged_lines_are_counted_and_the_first_is_named(run: Path) -> None:
    put(run, 1, mixed(1))
    append(run, b'{"step": 2, "gi\n\n[1]\n{"step": "two"}\n{"step": true}\n{"step": -1}\n{"gid": "x"}\n\xff\xfe\n')
    put(run, 3, mixed(3))
    append(run, b'{"step": 4')  # in a shard that is over it will never be whole
    append(run, b'{"step": 5}\n', shard=1)
    found = index(run)
    assert found.steps == [1, 3, 5]
    assert (found.source.damaged, found.source.where) == (8, "groups/000000.jsonl, line 2")
    found.refresh()
    assert found.source.damaged == 8


def test_shards_follow_each_other(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SHARD", 3000)
    for step in range(1, 6):
        put(run, step, mixed(step, 0), mixed(step, 1))
    found = index(run)
    assert len(list((run / "groups").iterdir())) > 2
    assert found.steps == [1, 2, 3, 4, 5]
    put(run, 6, mixed(6))
    found.refresh()
    assert found.steps[-1] == 6
    assert keys(found, 2, "all", "order", "") == ["2/2-0", "2/2-1"]


def test_a_resumed_run_is_read_anew(run: Path) -> None:
    put(run, 1, mixed(1))
    runfolder.save_checkpoint(run, 1, lambda folder: (folder / "x").write_text("x"))
    put(run, 2, mixed(2, words="first"))
    found = index(run)
    name = found.name
    runfolder.rewind(run, runfolder.load_checkpoint(run))
    for step in (2, 3):  # past the former end before anybody looks
        put(run, step, mixed(step, words="again"))
    found.refresh()
    assert found.name != name
    assert (found.steps, list(found.history.steps)) == ([1, 2, 3], [1, 2, 3])
    assert keys(found, None, "all", "order", "again") == ["2/2-0", "3/3-0"]
    assert keys(found, None, "all", "order", "first") == []


@pytest.mark.parametrize("how", ["shrunk", "replaced", "rewritten", "gone"])
def test_what_is_no_longer_there_is_forgotten(run: Path, how: str) -> None:
    put(run, 1, mixed(1))
    put(run, 2, mixed(2))
    found = index(run)
    shard = run / "groups" / "000000.jsonl"
    data = shard.read_bytes()
    if how == "shrunk":
        os.truncate(shard, data.index(b"\n") + 1)
    elif how == "replaced":
        shard.unlink()
        put(run, 1, mixed(1))
    elif how == "rewritten":  # as long as before and more, in the same file
        with open(shard, "r+b") as file:
            file.write(json.dumps(line(mixed(1, words="x" * 2 * len(data)))).encode() + b"\n")
    else:
        shard.unlink()
    found.refresh()
    assert found.steps == ([] if how == "gone" else [1])
    found.refresh()
    assert found.steps == ([] if how == "gone" else [1])


def test_links_and_other_files_are_not_read(run: Path, tmp_path: Path) -> None:
    other = create(tmp_path, "other")
    put(other, 1, mixed(1))
    (run / "groups").mkdir()
    (run / "groups" / "000000.jsonl").symlink_to(other / "groups" / "000000.jsonl")
    os.mkfifo(run / "groups" / "000001.jsonl")
    (run / "groups" / "notes.txt").write_text(json.dumps(line(mixed())) + "\n")
    assert index(run).entries == []
    linked = create(tmp_path, "linked")
    (linked / "groups").symlink_to(other / "groups")
    assert index(linked).entries == []


def test_keys_are_unique(run: Path) -> None:
    for gid in ("a", "a", None, None, ["x"], "b" * 500):
        append(run, json.dumps({"step": 1, "gid": gid}).encode() + b"\n")
    found = index(run)
    assert [e.key for e in found.entries] == ["1/a", "1/a~2", "1/?2", "1/?3", "1/?4", "1/" + "b" * 80]
    assert [e.at for e in found.entries] == [0, 1, 2, 3, 4, 5]


def test_filters_and_sorts(run: Path) -> None:
    right = group(*(answer(f"72 {k}", 1.0, read="72") for k in range(4)), i=1)
    wrong = group(*(answer(f"say {k}", status="unreadable", cut=True, tokens=9 + k) for k in range(4)), i=2)
    equal = group(*(answer(f"go {k}", 0.5) for k in range(4)), i=3)
    failed = group(answer("1", status="failed"), answer("72", 1.0), i=4)
    put(run, 1, mixed(1, 0), right, wrong)
    put(run, 2, equal, failed)
    found = index(run)
    assert found.counts(None) == {
        "all": 5, "mixed": 2, "no_signal": 3, "all_wrong": 1, "all_right": 1, "cut": 1, "unreadable": 1, "failed": 1,
        "starred": 0,
    }  # fmt: skip
    assert found.counts(2)["no_signal"] == 1
    assert keys(found, None, "all_right", "order", "") == ["1/1-1"]
    assert keys(found, 1, "no_signal", "newest", "") == ["1/1-1", "1/1-2"]
    assert keys(found, None, "all", "newest", "") == ["2/1-3", "2/1-4", "1/1-0", "1/1-1", "1/1-2"]
    assert keys(found, None, "all", "spread", "")[:2] == ["2/1-4", "1/1-0"]
    assert keys(found, None, "all", "advantage", "")[0] == "1/1-0"
    assert keys(found, None, "all", "lowest", "")[0] == "1/1-2"
    assert keys(found, None, "all", "longest", "")[0] == keys(found, None, "all", "cut", "")[0] == "1/1-2"
    assert [found.nearest_step(s) for s in (None, 0, 1, 2, 9)] == [2, 1, 1, 2, 2]
    for show in SHOWS:
        for sort in SORTS:
            assert len(found.pick(None, show, sort, "")) == found.counts(None)[show]


def test_search_finds_questions_answers_texts_and_ids(run: Path) -> None:
    put(run, 1, mixed(1, 0, words="Grüße ÉTÉ"), mixed(1, 1))
    found = index(run)
    for needle in ("grüße été", "NO 0?", "e0"):
        assert keys(found, None, "all", "order", needle) == ["1/1-0"]
    assert len(keys(found, 1, "all", "order", "  72 ")) == 2
    assert keys(found, None, "all", "order", "nowhere") == []
    put(run, 2, mixed(2, 5, words="nowhere"))
    found.refresh()
    assert keys(found, None, "all", "order", "nowhere") == ["2/2-5"]  # what was searched before is searched on
    assert keys(found, 1, "all", "order", "nowhere") == []


def test_beyond_the_bound_the_oldest_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        run = create(tmp_path, name)
        for step in range(1, 5):
            put(run, step, mixed(step, words=f"w{step} " + "x" * 1000))
    monkeypatch.setattr(module, "TEXT", 10_000)
    monkeypatch.setattr("minigrpo.ui.library.TEXT", 10_000)
    library = Library()
    with library.reading(tmp_path / "a") as a:
        assert a.unsearched == 2
        assert keys(a, None, "all", "order", "w1") == []
        assert keys(a, None, "all", "order", "w4") == ["4/4-0"]
    with library.reading(tmp_path / "b") as b:
        pass
    assert a.text_bytes + b.text_bytes <= 10_000
    assert b.unsearched == 2
    with library.reading(tmp_path / "a") as again:
        assert again is a
        assert len(again.entries) == 4


def test_a_long_history_is_read_in_several_looks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(run, b"".join(b'{"step": %d}\n' % n for n in range(200)))
    found = Index(run, Shards)
    shares = []
    for _ in range(9):
        found.refresh(patience=-1.0)
        shares.append(found.reading)
        if len(found.entries) == 200:
            break
    assert shares[0] is not None
    assert 0 < shares[0] < 0.3
    assert len(found.entries) == 200
    assert found.reading is None


@pytest.mark.parametrize("name", ["events.jsonl", "notes.jsonl"])
def test_so_is_a_long_log_of_events_or_notes(run: Path, name: str) -> None:
    line = '{"event": "Step", "step": %d, "key": "%d", "star": true}\n'
    (run / name).write_text("".join(line % (n, n) for n in range(200)) + '{"torn')
    found, shares = Index(run, Shards), []
    for _ in range(7):
        found.refresh(patience=-1.0)
        shares.append(found.reading)
    assert shares[:6] == sorted(s for s in shares if s)
    assert shares[6] is None
    assert len(found.history.steps if name == "events.jsonl" else found.stars) == 200


def test_a_line_without_end_does_not_fill_the_memory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minigrpo.ui.tail.LONGEST", 4096)
    append(run, b"x" * 10_000)
    found = index(run)
    append(run, b"x" * 5000 + b'\n{"step": 1}\n')
    found.refresh()
    assert (found.steps, found.source.damaged, found.source.where) == ([1], 1, "groups/000000.jsonl, line 1")


def test_the_library_keeps_a_few_runs(tmp_path: Path) -> None:
    library = Library(limit=2)
    runs = [create(tmp_path, name) for name in "abc"]
    seen = []
    for path in (*runs, runs[2], runs[0]):
        with library.reading(path) as found:
            seen.append(found.name)
    assert seen[2] == seen[3]
    assert seen[0] != seen[4]
