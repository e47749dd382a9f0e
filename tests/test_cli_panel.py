"""The verb panel, and the panel beside a demo."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_ground import call, command, refused
from rich.console import Console

from minigrpo.ui import beside, panel

pytest.importorskip("gradio")


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts `minigrpo ARGS`; the process, once its first line is out, and the line."""
    running: list[subprocess.Popen[str]] = []

    def start(*args: object, **env: str) -> tuple["subprocess.Popen[str]", str]:
        process = subprocess.Popen(
            command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
            env={**os.environ, **env},
        )  # fmt: skip
        running.append(process)
        assert process.stdout
        return process, process.stdout.readline()

    yield start
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


@pytest.mark.slow
def test_ctrl_c_ends_it(started: Any, tmp_path: Path) -> None:
    process, line = started("panel", tmp_path, "--port", 0)
    assert line.startswith("panel on http://127.0.0.1:")
    assert line.endswith("/  (Ctrl-C ends it; training is not affected)\n")
    assert urllib.request.urlopen(line.split()[2]).status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert process.stderr.read() == ""


@pytest.mark.slow
def test_json_and_the_end_of_stdin(started: Any, tmp_path: Path) -> None:
    process, line = started("panel", tmp_path, "--port", 0, "--json", "--with-stdin", "--read-only")
    told = json.loads(line)
    assert told.keys() == {"url", "root"}
    page = urllib.request.urlopen(told["url"]).read().decode()
    assert '"poll"' in page
    assert '"control"' not in page
    process.stdin.close()
    assert process.wait(10) == 0


@pytest.mark.slow
def test_sigterm_ends_it(started: Any, tmp_path: Path) -> None:
    process, _ = started("panel", tmp_path, "--port", 0)
    process.terminate()
    assert process.wait(10) == 0
    assert process.stderr.read() == ""


@pytest.mark.slow
def test_password(started: Any, tmp_path: Path) -> None:
    process, line = started("panel", tmp_path, "--port", 0, "--auth", "--json", MINIGRPO_PASSWORD="correct horse")
    assert "correct" not in " ".join(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0"))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(json.loads(line)["url"])


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(call("panel", tmp_path, "--host", "0.0.0.0"), "no password", "--auth")
    monkeypatch.setenv("MINIGRPO_PASSWORD", "short")
    refused(call("panel", tmp_path, "--auth"), "8 characters")
    refused(call("panel", tmp_path, "--port", 70000), "65535")
    (tmp_path / "file").write_text("")
    refused(call("panel", tmp_path / "file"), "no folder")


def test_password_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIGRPO_PASSWORD", raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "typed in here")
    assert panel.asked_password() == "typed in here"


def words(screen: Console) -> str:
    return str(screen.file.getvalue())  # type: ignore[attr-defined]


@pytest.fixture
def screen() -> Console:
    import io

    return Console(file=io.StringIO(), width=200)


@pytest.mark.slow
def test_panel_beside_a_training(tmp_path: Path, screen: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: made.append(popen(*a, **k)) or made[-1])
    with beside.panel(tmp_path, screen) as stay:
        end = time.monotonic() + 20
        while "panel on http" not in words(screen):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert urllib.request.urlopen(words(screen).split()[2]).status == 200
        if sys.platform == "linux":
            assert os.getpriority(os.PRIO_PROCESS, made[0].pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
        stay()  # no terminal: nobody is waited for
    assert made[0].poll() is not None


@pytest.mark.slow
def test_panel_that_dies_is_only_told(tmp_path: Path, screen: Console) -> None:
    (tmp_path / "file").write_text("")
    with beside.panel(tmp_path / "file", screen):
        end = time.monotonic() + 20
        while "did not start" not in words(screen):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_panel_that_is_not_installed(tmp_path: Path, screen: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside.importlib.util, "find_spec", lambda name: None)
    with beside.panel(tmp_path, screen) as stay:
        stay()
    assert words(screen) == 'no panel: pip install "minigrpo[ui]"\n'


def test_demo_without_a_panel_starts_none(tmp_path: Path, screen: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with beside.panel(tmp_path, screen, without=True):
        pass
    assert words(screen) == ""


@pytest.mark.slow
def test_panel_goes_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom rich.console import Console\nfrom minigrpo.ui import beside\n"
        "with beside.panel(Path(sys.argv[1]), Console(width=200)):\n    time.sleep(60)"
    )
    demo = subprocess.Popen([sys.executable, "-uc", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert demo.stdout
    url = demo.stdout.readline().split()[2]
    assert urllib.request.urlopen(url).status == 200
    demo.kill()
    demo.communicate()
    end = time.monotonic() + 10
    while True:
        try:
            urllib.request.urlopen(url)
        except urllib.error.URLError:
            break
        assert time.monotonic() < end
        time.sleep(0.1)


DEMO = """
import sys
from minigrpo import cli, demo
whole, tiny = demo.config, sys.argv.pop()
small = {"steps": 2, "prompts_per_step": 2, "group_size": 4, "max_tokens": 4, "eval_max_tokens": 4, "eval_n": 4}
demo.config = lambda *a: whole(*a).model_copy(update=small | {"model": tiny, "dtype": "fp32"})
sys.exit(cli.main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_demo_keeps_its_panel_open_on_a_terminal(tiny_folder: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    plain = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO, "demo", "--out", tmp_path / "runs" / "demo", tiny_folder], stdin=theirs,
        stdout=theirs, stderr=theirs, cwd=tmp_path, env=plain, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said = ""
    while not ("panel on http" in said and "the panel stays open" in said):
        try:
            said += os.read(ours, 4096).decode("utf-8", "replace")
        except OSError:  # it has ended
            pytest.fail(said)
    found = re.search(r"panel on (http://\S+)", said)
    assert found
    assert urllib.request.urlopen(found[1]).status == 200
    assert "next:" in said
    os.killpg(demo.pid, signal.SIGINT)  # as the terminal's Ctrl-C
    assert demo.wait(20) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(found[1])
    os.close(ours)
