"""What a user can mend: two lines, what is wrong and what to do."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can mend. `message` says what is wrong, `hint` what to do; the command line exits with 2."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class RunFailed(Exception):
    """A run that cannot go on. `reason` stands in status.json; the command line exits with 1."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that offers the nearest right name; all of them where none is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}"


def printable(text: str) -> str:
    """Text whose control characters, but for new lines, are blanks: what is quoted must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
