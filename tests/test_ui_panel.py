"""The panel's process: rights, what an environment cannot change, and what it leaves out."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from minigrpo import ui
from minigrpo.errors import UserError
from minigrpo.ui import child
from minigrpo.ui.shelf import Shelf

pytest.importorskip("gradio")

from minigrpo.ui import panel, replay  # noqa: E402


def test_host_of_others_needs_a_password(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(UserError, match="no password"):
            panel.serve(tmp_path, host=host, port=0)
    assert all(map(panel.loopback, ("127.0.0.1", "127.3.2.1", "::1", "localhost")))


def test_what_cannot_be_served(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is no folder"):
        panel.serve(tmp_path / "file", port=0)
    match = "cannot listen on 127.0.0.1, port"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match=match):
        panel.serve(tmp_path, port=taken.getsockname()[1])
    with pytest.raises(UserError, match="no host"):
        panel.serve(tmp_path, host="no.such.host.invalid", password="correct horse")


def test_next_free_port_is_taken(tmp_path: Path) -> None:
    with panel._listening("127.0.0.1", None) as first, panel._listening("127.0.0.1", None) as second:
        assert first.getsockname()[1] < second.getsockname()[1]


def test_without_gradio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "minigrpo.ui.page", raising=False)
    monkeypatch.delattr(ui, "page", raising=False)
    monkeypatch.setattr(panel, "_plain_surroundings", lambda: None)
    with pytest.raises(UserError) as refused:
        panel.serve(tmp_path, port=0)
    assert refused.value.hint == 'pip install "minigrpo[ui]"'


ACTS = {
    "control",
    "force",
    "note",
    "start",
    "go_on",
    "evaluate",
    "chat_open",
    "chat_say",
    "vote",
    "try_reward",
    "replay",
}


def test_rights_are_what_is_registered(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)

    def names(can: panel.Rights) -> set[str]:
        return {f.__name__ for f in panel.functions(shelf, replay.Player(shelf), can)}

    everything = names(panel.Rights())
    assert everything >= ACTS | {
        "runs",
        "poll",
        "group",
        "text",
        "same",
        "diff",
        "tokens",
        "curves",
        "configs",
        "evals",
    }
    reading = names(panel.Rights(False, False, False))
    assert not reading & ACTS
    assert {"runs", "poll", "group", "curves", "evals"} <= reading


SERVED = """
import sys, urllib.request
from pathlib import Path
from minigrpo.ui import panel
said = {}
def look():
    for path in ("", "web/main.js", "theme.css"):
        urllib.request.urlopen(said["url"] + path).read()
panel.serve(Path(sys.argv[1]), port=0, ready=said.update, until=look)
print([m for m in ("torch", "transformers", "peft") if m in sys.modules])
"""


@pytest.mark.slow
def test_panel_process_has_no_torch(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SERVED, tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="ticks are counted as Linux does")
def test_an_idle_panel_rests(tmp_path: Path) -> None:
    """Gradio's queue would wake a thousand times a second."""
    command = [sys.executable, "-m", "minigrpo", "panel", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as panel:
        try:
            assert panel.stdout
            assert panel.stdout.readline().startswith("panel on http://")
            time.sleep(2)  # what starts with it has started

            def seconds() -> float:
                fields = Path(f"/proc/{panel.pid}/stat").read_text().rpartition(")")[2].split()
                return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

            before = seconds()
            time.sleep(2)
            assert seconds() - before < 0.05
        finally:
            panel.terminate()


def test_the_map_names_every_module() -> None:
    named = re.findall(r"^    (\w+) +\S", ui.__doc__ or "", re.M)
    assert sorted(named) == sorted(p.stem for p in Path(ui.__file__).parent.glob("*.py") if p.stem != "__init__")


@pytest.mark.slow
def test_no_variable_opens_anything(tmp_path: Path) -> None:
    """Every variable that Gradio reads, set to what would open most."""
    spec = find_spec("gradio")
    assert spec
    assert spec.origin
    source = "".join(p.read_text("utf-8") for p in Path(spec.origin).parent.glob("*.py"))
    names = set(re.findall(r"\bGRADIO_[A-Z_]+\b", source))
    assert len(names) > 20
    hostile = dict.fromkeys(names, "true") | {
        "GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": "1", "GRADIO_ROOT_PATH": "http://evil.example",
        "GRADIO_ALLOWED_PATHS": "/", "GRADIO_TEMP_DIR": str(tmp_path), "GRADIO_NUM_WORKERS": "4",
        "FASTAPI_OTEL_AUTO_CONFIGURE": "true", "FORWARDED_ALLOW_IPS": "*", "WEB_CONCURRENCY": "4",
    }  # fmt: skip
    code = SERVED.replace(
        "    for path", "    print(urllib.request.urlopen(said['url']).read().decode(), said['url'])\n    for path"
    )
    env = {**os.environ, **hostile}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60, env=env)
    assert done.stderr == ""
    found = re.search(r"window\.gradio_config = (\{.*?\});</script>", done.stdout)
    assert found
    told = json.loads(found[1])
    assert told["root"].startswith("http://127.0.0.1:")
    opened = (
        "analytics_enabled",
        "mcp_server",
        "vibe_mode",
        "dev_mode",
        "run_history",
        "pwa",
        "show_error",
        "footer_links",
    )
    assert not [k for k in opened if told[k]]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux has a priority a thread")
def test_trainers_keep_their_priority() -> None:
    code = (
        "import os, subprocess\nfrom minigrpo.ui import child\nchild.be_nice(5)\n"
        "show = lambda run: int(run(['nice'], capture_output=True, text=True).stdout)\n"
        "print(show(subprocess.run) - show(lambda *a, **k: child.eager(subprocess.run, *a, **k)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "5\n"
    assert child.eager(lambda x: x + 1, 1) == 2
