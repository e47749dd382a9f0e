"""Who may ask the panel what: its own page alone, at the few addresses that page needs, in small requests."""

import asyncio
import base64
import hmac
import sys
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minigrpo.errors import printable

USER = "minigrpo"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LIMIT = 1 << 18  # bytes of a question
_ASK = ("/gradio_api/component_server", "/gradio_api/component_server/")
_PAGES = ("/", "/theme.css", "/favicon.ico", "/manifest.json")
_FOLDERS = ("/assets/", "/static/", "/web/")
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_POLICY = (  # Gradio's page has inline scripts and builds functions from text; nothing leaves this server
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
)


@dataclass(frozen=True)
class Guard:
    """The door in front of the panel (ASGI).

    `hosts`: the names it answers to; None for any. `public`: a read-only page that may stand in a frame elsewhere,
    behind a proxy. `password`: asked of everyone, by HTTP Basic, for `USER`.
    """

    app: ASGIApp
    hosts: frozenset[str] | None
    password: str | None = field(default=None, repr=False)
    public: bool = False
    _wrong: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            headers = Headers(scope=scope)
            no = self._stranger(scope, headers) or await self._unknown(headers) or _unwanted(scope, headers)
            await (no or self._through)(scope, receive, self._dressed(scope, send))
        else:  # the page needs no web socket
            await send({"type": "websocket.close", "code": 1008})

    async def _through(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, "query_string": b"" if scope["path"] == "/" else scope["query_string"]}  # no deep links
        if not self.public:  # nobody stands between us and the browser who could speak for it
            scope["headers"] = [(k, v) for k, v in scope["headers"] if not k.startswith(b"x-forwarded-")]
        try:
            await self.app(scope, receive, send)
        except Exception as error:  # Starlette has answered 500; anyone can send nonsense, and it fills no terminal
            print(printable(f"not answered: {type(error).__name__}: {error}")[:200], file=sys.stderr)

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """Another name for us (DNS rebinding), or a question that another site's page asks."""
        host = headers.get("host", "")
        if self.hosts is not None and _name(host) not in self.hosts:
            return PlainTextResponse("this panel has another name", 400)
        if self.public:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        visit = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if (origin is not None and origin.partition("://")[2] != host) or (
            site not in ("same-origin", "none") and not visit
        ):
            return PlainTextResponse("only the panel's own page may ask", 403)
        return None

    async def _unknown(self, headers: Headers) -> Response | None:
        if self.password is None:
            return None
        given = headers.get("authorization", "")
        if _same(given, self.password):
            return None
        if given:
            async with self._wrong:  # one guess after the other
                await asyncio.sleep(0.5)
        challenge = {"www-authenticate": 'Basic realm="minigrpo", charset="UTF-8"'}
        return PlainTextResponse("a password is needed", 401, challenge)

    def _dressed(self, scope: Scope, send: Send) -> Send:
        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                frames = "'self' https://huggingface.co" if self.public else "'self'"
                headers["content-security-policy"] = f"{_POLICY}frame-ancestors {frames}"
                for name in [n for n in headers if n.startswith("access-control-")]:  # Gradio lets other ports read
                    del headers[name]
                if not scope["path"].startswith(("/assets/", "/static/")):  # an upgrade is seen at once
                    headers["cache-control"] = "no-cache" if scope["path"].startswith("/web/") else "no-store"
            await send(message)

        return dressed


def _unwanted(scope: Scope, headers: Headers) -> Response | None:
    """An address or a form that our page has no use for: Gradio's uploads, files, queue, API pages."""
    path: str = scope["path"]
    if scope["method"] in ("GET", "HEAD"):
        plain = ".." not in path and "//" not in path and "\\" not in path and "\0" not in path
        wanted = path in _PAGES or (path.startswith(_FOLDERS) and plain)
        return None if wanted else PlainTextResponse("not here", 404)
    if scope["method"] != "POST" or path not in _ASK:
        return PlainTextResponse("not here", 404)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return PlainTextResponse("ask in JSON", 415)
    size = headers.get("content-length", "")
    if not size.isdecimal() or "transfer-encoding" in headers:  # which would override the length
        return PlainTextResponse("say how long the question is", 411)
    return PlainTextResponse("the question is too long", 413) if len(size) > 9 or int(size) > LIMIT else None


def _same(given: str, password: str) -> bool:
    """Whether an Authorization header holds USER and the password; the time it takes does not tell."""
    kind, _, code = given.partition(" ")
    try:
        told = base64.b64decode(code.strip(), validate=True)
    except ValueError:
        told = b""
    return hmac.compare_digest(told, f"{USER}:{password}".encode()) and kind.lower() == "basic"


def _name(host: str) -> str:
    """The name in a Host header: without its port, in lower case."""
    return (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]).lower()
