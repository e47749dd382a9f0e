"""The panel in a real browser: a panel process, fake trainers, and pages that must stay free of errors."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from browser import fake_trainer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --js-flags=--expose-gc --force-color-profile=srgb""".split()
REQUIRED = os.environ.get("MINIGRPO_BROWSER") == "required"
READY = '.mg[data-ready="1"]'
OPEN = 'li.group[data-signal="mixed"] article.answer .open'  # what taught nothing starts folded
PROBE = """window.probe = async (name, data) => {
    const id = window.gradio_config.components.find(c => c.type === 'html').id, begun = performance.now();
    const body = JSON.stringify({ data, component_id: id, fn_name: name, session_hash: 'probe' });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch('gradio_api/component_server/', { method: 'POST', headers, body });
    const text = await answer.text(), ms = performance.now() - begun;
    return { status: answer.status, size: text.length, ms, data: answer.ok ? JSON.parse(text) : null };
}"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


def executable() -> str:
    """The system's Chromium; "" where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


def missing() -> str:
    """Why there is no browser; "" where there is one."""
    if not executable():
        return "no Chromium: apt-get install chromium"
    absent = [m for m in ("gradio", "playwright") if find_spec(m) is None]
    return f"no {absent[0]}: pip install -e '.[dev,ui]'" if absent else ""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for the tests of a file; playwright's event loop ends with it."""
    if why := missing():
        (pytest.fail if REQUIRED else pytest.skip)(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable(), args=FLAGS)
        yield browser
        browser.close()


class Panel:
    """A panel process over a folder; `url` is its address."""

    def __init__(self, root: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.root, self._errors = root, tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed below)
        command = [sys.executable, "-m", "minigrpo", "panel", str(root), "--json", *flags]
        command += [] if "--port" in flags else ["--port", "0"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._errors, text=True, env={**os.environ, **(env or {})}
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        self.url: str = json.loads(line)["url"]

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def close(self, kind: int = signal.SIGINT) -> None:
        self.process.send_signal(kind)
        assert self.process.wait(10) == (0 if kind == signal.SIGINT else -kind)
        if self.process.stdout:
            self.process.stdout.close()
        told = self.errors()
        self._errors.close()
        assert not told, told


@pytest.fixture
def panels() -> Iterator[Callable[..., Panel]]:
    """Starts panels of a test's own."""
    started: list[Panel] = []

    def start(root: Path, *flags: str, **more: Any) -> Panel:
        started.append(Panel(root, *flags, **more))
        return started[-1]

    yield start
    for panel in started:
        if panel.process.poll() is None:
            panel.close()


@pytest.fixture(scope="session")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Panel]:
    """The panel that most tests share; each puts runs of its own into its folder."""
    if why := missing():
        (pytest.fail if REQUIRED else pytest.skip)(why)
    panel = Panel(tmp_path_factory.mktemp("runs"))
    yield panel
    panel.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A run's name that is the test's."""
    return re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")


@pytest.fixture
def recorded(panel: Panel, name: str) -> Callable[..., Path]:
    """A finished run of the fake trainer on the shared panel's shelf, named like the test."""

    def make(*flags: str, suffix: str = "") -> Path:
        return fake_trainer.main([str(panel.root / (name + suffix)), *flags])

    return make


@pytest.fixture
def trainer(panel: Panel, name: str) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Starts fake trainers as processes; their run is on the shared panel's shelf, named like the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*flags: str, run: Path | None = None) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(HERE / "fake_trainer.py"), str(run or panel.root / name), *flags]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


class Visits:
    """Pages on panels; `noise` is what no page may have: console messages, errors, requests to other hosts."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.noise: list[str] = []
        self.allowed: list[str] = []  # patterns of noise that a test provokes
        self._contexts: list[Any] = []

    def __call__(self, url: str, hash: str = "", *, ready: bool = True, **options: Any) -> Any:
        """A new browser context with a page at `url`#`hash`, drawn."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(10_000)
        self._contexts.append(context)
        return self.open(context, url, hash, ready=ready)

    def open(self, context: Any, url: str, hash: str = "", *, ready: bool = True) -> Any:
        page = context.new_page()
        page.add_init_script(PROBE)
        page.on("console", lambda m: m.type in ("error", "warning") and self.noise.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.noise.append(f"page error: {e}"))
        ours = (url.partition("?")[0], "data:", "blob:")
        page.on("request", lambda r: r.url.startswith(ours) or self.noise.append(f"to {r.url}"))
        page.goto(url + (f"#{hash}" if hash else ""))
        if ready:
            page.wait_for_selector(READY)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        heard = [n for n in self.noise if not any(re.search(a, n) for a in self.allowed)]
        assert not heard, "\n".join(heard)


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visits]:
    visits = Visits(chromium)
    yield visits
    visits.close()


def probe(page: Any, name: str, data: Any) -> dict[str, Any]:
    """Asks a handler as the page does: {status, size, ms, data}."""
    return dict(page.evaluate("([name, data]) => window.probe(name, data)", [name, data]))


def until(true: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Waits for something outside the page."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
    return value
