"""A panel beside a training: a process of its own, which can neither slow nor end it, and goes when it goes."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from minigrpo.ui import child

INSTALL = 'pip install "minigrpo[ui]"'


def replay(folder: Path, screen: Console, ready: Callable[[dict[str, str]], object] | None = None) -> None:
    """A panel over `folder` in which a recorded run is played, in this process, until Ctrl-C."""
    from minigrpo.ui.panel import serve, tell

    def told(where: dict[str, str]) -> None:
        (ready or tell)(where)
        if ready is None:
            screen.print("a recorded run plays in it, faster than it was; nothing is trained", highlight=False)
        show(where["url"], screen)

    serve(folder, recorded=True, ready=told)


@contextmanager
def panel(folder: Path, screen: Console, without: bool = False) -> Iterator[Callable[[], None]]:
    """Within it a panel shows the runs of `folder`; its address is told and opened as soon as it has one.

    Gives a function that keeps it open, on a terminal, until Ctrl-C. `without`: there is none.
    """
    if without:
        yield lambda: None
        return
    if importlib.util.find_spec("gradio") is None:
        screen.print(f"no panel: {INSTALL}", markup=False, highlight=False)
        yield lambda: None
        return
    command = child.command("minigrpo", "panel", str(folder), "--json", "--with-stdin")
    process = subprocess.Popen(
        command, env=child.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C stops the training, which then ends the panel
    )  # fmt: skip
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(process, screen, over), daemon=True)
    teller.start()
    try:
        yield lambda: _stay(process, screen)
    finally:
        over.set()
        _end(process)
        teller.join(5)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def show(url: str, screen: Console) -> None:
    """Opens the address in a browser, where a person sits and has one."""
    desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if desktop and screen.is_terminal:
        with suppress(webbrowser.Error, OSError):
            webbrowser.open(url)


def _tell(process: "subprocess.Popen[bytes]", screen: Console, over: threading.Event) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    with suppress(OSError, SystemExit):  # whoever read our output is gone: the training goes on
        if not line:
            if not over.is_set():
                screen.print("the panel did not start; the training goes on (see: minigrpo panel)", highlight=False)
            return
        url = json.loads(line)["url"]
        screen.print(Text(f"panel on {url}"), soft_wrap=True)
        show(url, screen)


def _stay(process: "subprocess.Popen[bytes]", screen: Console) -> None:
    if screen.is_terminal and sys.stdin.isatty() and process.poll() is None:
        screen.print("the panel stays open: Ctrl-C ends it", highlight=False)
        with suppress(KeyboardInterrupt):
            process.wait()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
