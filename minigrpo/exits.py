"""What a verb ends in: an exit code, and two lines for what a user can mend."""

import io
import logging
import os
import sys

import typer

from minigrpo.errors import RunFailed, UserError, nearest, printable


def run(app: typer.Typer) -> int:
    """Runs the verb asked for. 0 ok, 1 the run failed, 2 wrong usage or input, 130/143 stopped by a signal."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_plainly)
    logging.getLogger("minigrpo").setLevel(logging.INFO)
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)  # neither a stray byte nor a narrow terminal is worth a traceback
    try:
        code = app(prog_name="minigrpo", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _complain(error.message, error.hint)
    except typer.exceptions.TyperException as error:
        return _complain(error.format_message(), _usage(app))
    except RunFailed as error:
        return _complain(f"the run failed: {error}", code=1)
    except OSError as error:
        _hush()
        return _complain(str(error), "is there space on the disk, and may you use what is named?", code=1)
    except (KeyboardInterrupt, typer.exceptions.Abort) as error:
        return error.args[0] if error.args and isinstance(error.args[0], int) else 130
    return code if isinstance(code, int) else 0


def _plainly(record: logging.LogRecord) -> bool:
    """Lets every record pass, as text that a terminal only shows."""
    record.msg, record.args = printable(record.getMessage()), None
    return True


def _complain(message: str, hint: str = "", code: int = 2) -> int:
    lines = [f"error: {message}", *([f"  fix: {hint}"] if hint else [])]
    print("\n".join(map(printable, lines)), file=sys.stderr)  # a message may quote data, or what a model wrote
    return code


def _hush() -> None:
    """If stdout cannot be written, what waits in its buffer must not raise once more at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(app: typer.Typer) -> str:
    verbs = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback]
    asked = next((a for a in sys.argv[1:] if not a.startswith("-")), "")
    if asked in verbs:
        return f"see: minigrpo {asked} --help"
    return nearest(asked, verbs) if asked else "see: minigrpo --help"
