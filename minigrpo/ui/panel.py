"""The panel: one page over a folder of runs, served by one process of its own that never touches the trainer's."""

import getpass
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError
from minigrpo.ui import child, compare, control, curves, replay, server, talk, train
from minigrpo.ui.ask import Handler
from minigrpo.ui.library import Library
from minigrpo.ui.shelf import Shelf

PORT = 7860
_PORTS = 100  # that many are tried from PORT on
_NICE = 5
_ROOMS = ((compare, ""), (control, "control"), (train, "train"), (talk, "chat"))
_STARTS = {"evaluate": "train"}  # handlers of reading rooms that start a process


@dataclass(frozen=True)
class Rights:
    """What the page may do besides reading; a handler that needs a right which is missing does not exist."""

    control: bool = True
    train: bool = True
    chat: bool = True


def serve(
    root: Path, *, host: str = "127.0.0.1", port: int | None = None, password: str | None = None,
    read_only: bool = False, public: bool = False, recorded: Path | bool = False,
    ready: Callable[[dict[str, str]], object] | None = None, until: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    """The panel over the runs below `root`, until Ctrl-C or until `until` returns. Raises UserError.

    `port`: None takes 7860 or the next free one, 0 any. `password`: asked of every visitor. `public`: a hosted page,
    nothing but reading. `recorded`: that run (True: the packaged one) is played. `ready` gets {url, root}.
    """
    if not loopback(host) and password is None and not public:
        raise UserError(f"{host} can be reached by others, and the panel has no password", "add --auth")
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is no folder", "name a folder of runs, or a run")
    with ExitStack() as stack:
        _sigterm_is_ctrl_c(stack)
        door = stack.enter_context(_listening(host, port))
        shelf = Shelf(root)
        player = replay.Player(shelf, recorded if isinstance(recorded, Path) else None)
        stack.callback(player.close)
        can = Rights(False, False, False) if read_only or public else Rights()
        shelf.can = asdict(can)
        app = _app(shelf, player, can, host, password, public, door)
        if recorded:
            player.start()
        if not loopback(host) and not public:
            print("what goes over http can be read on its way: where that matters, use an SSH tunnel", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            (ready or tell)({"url": _address(host, door), "root": str(root)})
            sys.stdout.flush()
            _until_asked(app, door, until)


def tell(where: dict[str, str]) -> None:
    print(f"panel on {where['url']}  (Ctrl-C ends it; training is not affected)")


def asked_password() -> str:
    """The password of --auth: MINIGRPO_PASSWORD, else typed in; never an argument, which others can see."""
    given = os.environ.pop("MINIGRPO_PASSWORD", None)  # no trainer and no reward function needs to know it
    if given is None:
        try:
            given = getpass.getpass("password for the panel: ")
        except EOFError:
            raise UserError("no password was given", "set MINIGRPO_PASSWORD, or type one in") from None
    if len(given) < 8:
        raise UserError("a password of the panel has 8 characters or more", "who has it can start trainings here")
    return given


def stdin_ends() -> None:
    """Returns when whoever started us closes our stdin, or is gone."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass


def loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _app(
    shelf: Shelf, player: replay.Player, can: Rights, host: str, password: str | None, public: bool, door: socket.socket
) -> Any:
    _plain_surroundings()
    try:
        from minigrpo.ui import guard, page
    except ModuleNotFoundError as error:
        raise UserError(f"the panel needs {error.name}", 'pip install "minigrpo[ui]"') from None
    names = frozenset((*guard.LOOPBACK, host.lower(), f"[{host.lower()}]"))
    anyone = public or host in ("0.0.0.0", "::")  # whoever comes has the password
    app = page.build(functions(shelf, player, can), host, door.getsockname()[1])
    return guard.Guard(app, None if anyone else names, password, public)


def functions(shelf: Shelf, player: replay.Player, can: Rights) -> list[Handler]:
    """The handlers that these rights allow."""
    held = {"", *(right for right, given in asdict(can).items() if given)}
    rooms = [room for room, right in _ROOMS if right in held]
    shared = Library()
    found = [*server.functions(shelf, shared), *curves.functions(shelf, shared)]
    found += [f for room in rooms for f in room.functions(shelf) if _STARTS.get(f.__name__, "") in held]
    return [*found, *(replay.functions(player) if can.control else [])]


def _plain_surroundings() -> None:
    """No variable of the environment changes what Gradio opens, keeps or sends; the trainer comes first."""
    for name in [n for n in os.environ if n.startswith(("GRADIO_", "FASTAPI_"))]:
        del os.environ[name]
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}
    child.be_nice(_NICE)


@contextmanager
def _listening(host: str, port: int | None) -> Iterator[socket.socket]:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise UserError(f"there is no host {host!r} here", "127.0.0.1 is this machine alone") from None
    door = socket.socket(family, socket.SOCK_STREAM)
    with door:
        if os.name != "nt":  # there it would let two panels share a port
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for number in range(PORT, PORT + _PORTS) if port is None else (port,):
            with suppress(OSError):
                door.bind((place[0], number))
                door.listen(128)
                break
        else:
            tried = f"{PORT} to {PORT + _PORTS - 1}" if port is None else port
            raise UserError(f"cannot listen on {host}, port {tried}", "--port 0 takes any free port")
        yield door


def _sigterm_is_ctrl_c(stack: ExitStack) -> None:
    """Both end the panel in good order; uvicorn raises them anew once it has ended."""
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)


def _address(host: str, door: socket.socket) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{door.getsockname()[1]}/"


def _until_asked(app: Any, door: socket.socket, until: Callable[[], object] | None) -> None:
    import uvicorn

    config = uvicorn.Config(
        app, http="h11", ws="none", loop="asyncio", lifespan="on", log_level="warning", access_log=False,
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    process = uvicorn.Server(config)

    def wait() -> None:
        if until:
            until()
            process.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    process.run(sockets=[door])
