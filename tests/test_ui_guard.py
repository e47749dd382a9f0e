"""The panel's door: which requests come through to Gradio, and from whom."""

import base64
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from minigrpo.ui.ask import Query, handler

gradio = pytest.importorskip("gradio")
from starlette.testclient import TestClient  # noqa: E402 (comes with gradio)

from minigrpo.ui import guard, page  # noqa: E402

HOME = "http://127.0.0.1:7860"
ASK = "/gradio_api/component_server/"
PAGES = {"/", "/theme.css", "/favicon.ico", "/manifest.json", "/assets/{path:path}", "/static/{path:path}"}
PASSWORD = "correct horse"


class Echo(Query):
    word: str


@handler
def echo(q: Echo) -> dict[str, Any]:
    return {"word": q.word}


@pytest.fixture(scope="module")
def app() -> Any:
    return page.build([echo], "127.0.0.1", 7860)


@pytest.fixture(scope="module")
def client(app: Any) -> Iterator[TestClient]:
    names = frozenset(guard.LOOPBACK)
    with TestClient(guard.Guard(app, names), base_url=HOME) as client:
        yield client


def component(client: TestClient) -> int:
    """The number of the page's gr.HTML."""
    found = config(client)["components"]
    return int(next(c["id"] for c in found if c["type"] == "html"))


def config(client: TestClient, **more: Any) -> dict[str, Any]:
    found = re.search(r"window\.gradio_config = (\{.*?\});</script>", client.get("/", **more).text)
    assert found
    return dict(json.loads(found[1]))


def ask(client: TestClient, data: Any, name: str = "echo", **more: Any) -> Any:
    body = {"data": data, "component_id": component(client), "fn_name": name, "session_hash": "s"}
    return client.post(ASK, json=body, **more)


def test_page_asks_a_handler(client: TestClient) -> None:
    assert ask(client, {"word": "hi"}).json() == {"word": "hi"}
    assert ask(client, {"word": "hi", "more": 1}).json()["error"].startswith("echo: more:")
    assert ask(client, {}, name="__init__").status_code == 404


def test_answers_carry_the_rules(client: TestClient) -> None:
    for path in ("/", "/web/main.js", "/nowhere", "/theme.css"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert "http" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert not [h for h in headers if h.startswith("access-control")]


def test_files_of_the_page(client: TestClient) -> None:
    script = client.get("/web/main.js")
    assert script.headers["content-type"].split("/")[1].startswith("javascript")
    assert script.headers["cache-control"] == "no-cache"
    assert client.get("/web/main.js", headers={"if-none-match": script.headers["etag"]}).status_code == 304
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
    for path in (
        "/web/",
        "/web",
        "/web/../page.py",
        "/web/%2e%2e/page.py",
        "/web//etc/passwd",
        "/static/..%2f..%2froutes.py",
    ):
        assert client.get(path).status_code == 404, path


def routes(app: Any) -> list[tuple[str, str]]:
    """(method, path) of everything that Gradio serves."""
    (inner,) = (r.app for r in app.routes if getattr(r, "path", None) == "" and hasattr(r.app, "blocks"))
    found = {(m, r.path) for r in flat(inner.routes) for m in getattr(r, "methods", None) or ()}
    assert len(found) > 50
    return sorted(found)


def flat(found: Any) -> Iterator[Any]:
    for route in found:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from flat(inner.routes)


def test_no_other_route_of_gradio_is_reached(app: Any, client: TestClient) -> None:
    """Whatever Gradio serves besides: uploads, files, queue, proxy, API pages, monitoring, code that edits itself."""
    others = [(m, p) for m, p in routes(app) if p not in PAGES and not p.startswith(ASK.rstrip("/"))]
    assert {"/gradio_api/upload", "/gradio_api/queue/join", "/gradio_api/vibe-edit"} <= {p for _, p in others}
    for method, path in others:
        known = re.sub(r"\{[^}]*\}", "x", path)
        answer = client.request(method, known, json={} if method == "POST" else None)
        said = "" if method == "HEAD" else "not here"  # our words, not Gradio's
        assert (answer.status_code, answer.text) == (404, said), (method, path)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, ASK).status_code == 404


def test_web_sockets_are_closed(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("ws://127.0.0.1:7860/"):
        pass


FOREIGN: list[tuple[dict[str, str], int]] = [
    ({"host": "evil.example"}, 400),  # DNS rebinding
    ({"host": "127.0.0.1.evil.example:7860"}, 400),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://localhost:3000"}, 403),
    ({"origin": "http://127.0.0.1:7861"}, 403),
    ({"origin": "null"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}, 403),
]


@pytest.mark.parametrize(("headers", "code"), FOREIGN)
def test_other_sites_cannot_ask(client: TestClient, headers: dict[str, str], code: int) -> None:
    assert ask(client, {"word": "hi"}, headers=headers).status_code == code


def test_own_names_and_a_visit_from_elsewhere(client: TestClient) -> None:
    assert ask(client, {"word": "hi"}, headers={"origin": HOME, "sec-fetch-site": "same-origin"}).status_code == 200
    for host in ("localhost:9999", "LOCALHOST", "[::1]:7860"):
        assert client.get("/", headers={"host": host}).status_code == 200
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=visit).status_code == 200
    assert (
        client.get("/web/main.js", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code
        == 403
    )


def test_nobody_speaks_for_the_server(client: TestClient) -> None:
    told = config(client, headers={"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"})
    assert told["root"] == HOME


@pytest.mark.parametrize(
    ("content", "headers", "code"),
    [
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"--x--", {"content-type": "multipart/form-data; boundary=x"}, 415),
        (b"x" * (guard.LIMIT + 1), {"content-type": "application/json"}, 413),
        (b"{}", {"content-type": "application/json", "content-length": "9" * 30}, 413),
        (b"{}", {"content-type": "application/json", "transfer-encoding": "chunked"}, 411),
    ],
)
def test_forms_that_no_page_of_ours_sends(client: TestClient, content: bytes, headers: Any, code: int) -> None:
    assert client.post(ASK, content=content, headers=headers).status_code == code


def test_length_must_be_said(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"{}"

    assert client.post(ASK, content=pieces(), headers={"content-type": "application/json"}).status_code == 411


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"data": 1}', b'{"data":1,"component_id":9,"fn_name":"x","session_hash":"s"}']
)
def test_broken_question_is_no_traceback(client: TestClient, body: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    answer = client.post(ASK, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404, 422, 500)
    assert "Traceback" not in capfd.readouterr().err


def test_password_is_asked_everywhere(app: Any) -> None:
    right = {"authorization": "Basic " + base64.b64encode(f"minigrpo:{PASSWORD}".encode()).decode()}
    with TestClient(guard.Guard(app, None, PASSWORD), base_url=HOME) as client:
        for path in (
            "/",
            "/web/main.js",
            "/assets/x.js",
            "/theme.css",
            "/favicon.ico",
            "/config",
            "/gradio_api/info",
            "/login",
        ):
            answer = client.get(path)
            assert (answer.status_code, answer.text) == (401, "a password is needed"), path
            assert answer.headers["www-authenticate"].startswith("Basic ")
        assert client.post(ASK, json={}).status_code == 401
        for wrong in ("Basic x", "Basic " + base64.b64encode(b"minigrpo:no").decode(), f"Bearer {PASSWORD}"):
            begun = time.monotonic()
            assert client.get("/", headers={"authorization": wrong}).status_code == 401
            assert time.monotonic() - begun > 0.4
        assert client.get("/", headers=right).status_code == 200
        assert client.get("/web/main.js", headers=right).status_code == 200
        client.headers.update(right)
        assert ask(client, {"word": "hi"}).json() == {"word": "hi"}
