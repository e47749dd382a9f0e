"""Run folders from anywhere: whatever stands in a group's line, the board shows the rest and nothing raises."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ui_ground import index, line, mixed, run  # noqa: F401

from minigrpo.ui import view
from minigrpo.ui.advice import of_step
from minigrpo.ui.index import SHOWS, SORTS

_VALID = json.dumps(line(mixed(1, words="😀 \ud800"), 1)).encode() + b"\n"
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def shown(folder: Path) -> None:
    """Everything the board could show of what was read."""
    found = index(folder)
    for position, entry in enumerate(found.entries):
        group = found.group(position)
        assert group is not None
        json.dumps(view.full(group, entry.key, found.rules), allow_nan=False, ensure_ascii=False).encode()
        of_step([group, group], found.rules).encode()
    for show, sort in zip(SHOWS, (*SORTS, *SORTS), strict=False):
        found.pick(None, show, sort, "72")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(_VALID) - 1), st.binary(max_size=6), st.integers(0, 40)), max_size=4))
def test_any_bytes(tmp_path: Path, edits: list[tuple[int, bytes, int]]) -> None:
    data = _VALID
    for at, put_in, taken in edits:
        data = data[:at] + put_in + data[at + taken :]
    (tmp_path / "groups").mkdir(exist_ok=True)
    (tmp_path / "groups" / "000000.jsonl").write_bytes(data * 2)
    shown(tmp_path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere(tmp_path: Path, data: st.DataObject) -> None:
    """A line in which some values, at any depth, are something else or missing."""
    raw = json.loads(_VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = raw
        while True:
            at = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[at], (dict, list)) or not place[at] or data.draw(st.booleans()):
                break
            place = place[at]
        if isinstance(place, dict) and data.draw(st.booleans()):
            del place[at]
        else:
            place[at] = data.draw(_JSON)
        if not raw:
            break
    (tmp_path / "groups").mkdir(exist_ok=True)
    (tmp_path / "groups" / "000000.jsonl").write_text(json.dumps(raw) + "\n")
    shown(tmp_path)


def test_deep_and_huge_values(run: Path) -> None:
    (run / "groups").mkdir()
    deep = b"[" * 5000 + b"]" * 5000
    nested = b'{"a":' * 400 + b"1" + b"}" * 400
    template = b'{"step": 1, "%s": %s, "completions": [{"plan": %s, "text": %s}]}\n'
    values = (deep, nested, b"1e999", b"NaN", b"9" * 5000, b'"\\ud800"', b'"\\uD83D\\uDE00"')
    keys = (b"answer", b"plan", b"mean", b"prompt", b"gid")
    lines = [template % (key, value, value, value) for value in values for key in keys]
    (run / "groups" / "000000.jsonl").write_bytes(b"".join(lines))
    shown(run)
    assert index(run).steps == [1]
