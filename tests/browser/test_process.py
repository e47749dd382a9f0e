"""The panel's own process: restarted under an open page, behind a password, on a read-only day."""

import functools
import http.server
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import fake_trainer
from browser.conftest import OPEN, Panel, Visits, probe

LOST = ["Failed to fetch", "ERR_(CONNECTION|EMPTY)", "Could not connect to component server"]


def test_restart_under_an_open_page(tmp_path: Path, panels: Callable[..., Panel], visit: Visits, trainer: Any) -> None:
    visit.allowed += LOST
    trainer("--steps", "400", "--rate", "2", run=tmp_path / "a")
    first = panels(tmp_path)
    page = visit(first.url)
    page.locator(OPEN).first.click()
    page.wait_for_selector("article.isopen .full")
    opened = page.get_attribute("article.isopen", "aria-label")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    page.wait_for_selector("#trouble:has-text('Training is not affected')")
    panels(tmp_path, "--port", str(first.port))
    page.wait_for_selector('#pill[data-state="running"]')
    assert page.get_attribute("article.isopen", "aria-label") == opened
    page.click("#fresh")
    page.wait_for_selector('#mode[data-mode="live"]')
    asked: list[str] = []
    page.on("request", lambda r: "component_server" in r.url and asked.append(r.url))
    page.wait_for_timeout(3000)
    assert 1 <= len(asked) <= 5  # one loop


def test_password_in_a_browser(tmp_path: Path, panels: Callable[..., Panel], visit: Visits) -> None:
    fake_trainer.main([str(tmp_path / "a"), "--steps", "2"])
    panel = panels(tmp_path, "--auth", env={"MINIGRPO_PASSWORD": "correct horse"})
    with pytest.raises(Exception, match="ERR_INVALID_AUTH_CREDENTIALS"):
        visit(panel.url)
    visit.allowed.append("status of 401")  # the challenge that the browser then answers
    known = {"username": "minigrpo", "password": "correct horse"}
    page = visit(panel.url, http_credentials=known)
    page.wait_for_selector("li.group")
    for tab in ("curves", "runs"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f'[data-view="{tab}"][data-ready="1"]')


def test_read_only(tmp_path: Path, panels: Callable[..., Panel], visit: Visits, trainer: Any) -> None:
    trainer("--steps", "100", "--rate", "2", run=tmp_path / "a")
    page = visit(panels(tmp_path, "--read-only").url)
    page.wait_for_selector("li.group")
    assert page.locator("#tab-train, #tab-chat").count() == 0
    names = set(page.locator("button:visible").all_inner_texts())
    assert not names & {"Pause", "Stop & save", "Checkpoint", "☆"}
    for name in ("control", "start", "note", "chat_say"):
        assert probe(page, name, {})["status"] == 404
    visit.allowed.append("status of 404")


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None: ...


def test_other_page_cannot_ask(panel: Panel, visit: Visits, tmp_path: Path) -> None:
    """A page of another origin on this machine, in the same browser."""
    (tmp_path / "index.html").write_text("<!doctype html><title>other</title><link rel=icon href=data:,>")
    serve = functools.partial(Silent, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    page = visit(url, ready=False)
    ask = """([url, type]) => fetch(url + 'gradio_api/component_server/', { method: 'POST', body: '{}',
        headers: { 'content-type': type } }).then(r => r.status, () => 'blocked')"""
    assert page.evaluate(ask, [panel.url, "application/json"]) == "blocked"
    assert page.evaluate(ask, [panel.url, "text/plain"]) == "blocked"
    assert page.evaluate("url => fetch(url).then(r => r.text(), () => 'blocked')", panel.url) == "blocked"
    server.shutdown()
    visit.noise.clear()  # what the other page was told
