"""The process that chats, the only one of the panel that loads a model: JSON lines in, JSON lines out.

In: {"say": id, "talks": {"base", "adapter"}, "temperature", "seed", "max_tokens"} and {"stop": id}. Out: {"event":
"ready" or "failed" (of loading), "text" (a side has grown), "end" (of an answer), "idle"}. It ends with its input.
"""

import argparse
import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from minigrpo.errors import UserError
from minigrpo.types import Example

IDLE = 600.0  # seconds without a question, after which the memory is given back
PROBE = "What is 7 + 5? Say hello, too."  # on it the adapter must change something
NOTHING = "This adapter changes nothing: on a test prompt its logits equal the base's. Was it trained, and saved?"
HELD_BACK = 8  # tokens that may wait for the rest of a character
Line = dict[str, Any]


class Inbox:
    """What the panel asks: read beside the work, so that a stop is heard while the model writes."""

    def __init__(self) -> None:
        self.asked: queue.Queue[Line] = queue.Queue()
        self.stopped: set[str] = set()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        for text in sys.stdin:
            line = json.loads(text)
            if "stop" in line:
                self.stopped.add(line["stop"])
            else:
                self.asked.put(line)
        os._exit(0)  # the panel is gone: whatever is being loaded or written is for nobody


class Side:
    """One side's text as it grows: a token shows once its characters are whole."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: frozenset[int]) -> None:
        self.decode, self.stop = decode, stop
        self.ids: list[int] = []
        self._from = self._shown = 0  # decoding begins at the one, everything before the other has been told
        self._first = 0.0

    def add(self, token: int) -> str:
        """What can be shown now and could not before."""
        self._first = self._first or time.monotonic()
        self.ids.append(token)
        before, now = self.decode(self.ids[self._from : self._shown]), self.decode(self.ids[self._from :])
        if now.endswith("\ufffd") and len(self.ids) - self._shown < HELD_BACK:
            return ""
        self._from, self._shown = self._shown, len(self.ids)
        return now[len(before) :]

    def facts(self) -> Line:
        """Its length and its speed, which counts from the first token."""
        seconds, n = time.monotonic() - self._first, len(self.ids)
        return {"n_tok": n, "tok_s": (n - 1) / seconds if n > 1 and seconds > 0 else None}

    def whole(self, stopped: bool) -> Line:
        """All of it at the end."""
        ended = bool(self.ids) and self.ids[-1] in self.stop
        finish = "stop" if ended else "stopped" if stopped else "length"
        return {"text": self.decode(self.ids), "finish": finish}


class Chat:
    """A loaded model that answers."""

    def __init__(self, path: str, step: int | None, tell: Callable[[Line], None]) -> None:
        from minigrpo.rollout.duet import Duet
        from minigrpo.trained import open_trained

        heard = Warnings()
        self.trained = open_trained(path, os.environ.get("MINIGRPO_OFFLINE") == "1", step=step)
        self.renderer, self.policy = self.trained.renderer, self.trained.policy
        facts = Duet(self.policy).examine(self.renderer.encode(Example("probe", PROBE, None)))
        self.duet, self.tell = Duet(self.policy, facts.mixed), tell
        about = {"device": str(self.policy.device), "model": self.policy.base.name, "mixed": facts.mixed}
        warnings = [*([] if facts.changes else [NOTHING]), *heard.texts]
        tell({"event": "ready", "warning": " ".join(warnings) or None, "step": self.trained.step, **about})

    def answer(self, asked: Line, stopped: set[str]) -> None:
        """Writes both sides; the last line it tells is the end of it, whatever happens."""
        ident, wanted = asked["say"], lambda: asked["say"] not in stopped
        names = ("base", "adapter")
        sides = {name: Side(self.renderer.decode, self.policy.stop_ids) for name in names}

        def grown(side: int, token: int) -> None:
            name = names[side]
            text = sides[name].add(token)
            self.tell({"event": "text", "id": ident, "side": name, "text": text, **sides[name].facts()})

        state = self._written(asked, grown, wanted)
        whole = {name: side.whole(state["state"] == "stopped") for name, side in sides.items() if side.ids}
        self.tell({"event": "end", "id": ident, **state, "sides": whole})

    def _written(self, asked: Line, grown: Callable[[int, int], None], wanted: Callable[[], bool]) -> Line:
        import torch

        from minigrpo.rollout.duet import Stopped

        try:
            base, adapter = (self._prompt(asked["talks"][name]) for name in ("base", "adapter"))
            room = min(asked["max_tokens"], self.policy.context - max(len(base), len(adapter)))
            self.duet.write(
                (base, adapter), max_tokens=room, temperature=asked["temperature"], seed=asked["seed"], tell=grown,
                wanted=wanted,
            )  # fmt: skip
        except Stopped:
            return {"state": "stopped", "say": ""}
        except UserError as error:
            return {"state": "failed", "say": f"{error.message}: {error.hint}"}
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return {"state": "failed", "say": "out of GPU memory: start over, or ask for fewer tokens"}
        except Exception as error:  # told, and the model stays loaded
            traceback.print_exc()
            return {"state": "failed", "say": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        return {"state": "done", "say": ""}

    def _prompt(self, talk: list[dict[str, str]]) -> list[int]:
        ids, context = self.renderer.encode(Example("this talk", talk, None)), self.policy.context
        if len(ids) >= context:
            raise UserError(f"the talk has {len(ids):,} tokens, the model takes {context:,} in all", "start over")
        return ids


class Warnings(logging.Handler):
    """Hears what minigrpo warns of while it loads."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("minigrpo").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self.texts.append(message[:1].upper() + message[1:] + ".")


def main() -> None:
    """Loads, then answers one question after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("--step", type=int)
    parser.add_argument("--idle", type=float, default=IDLE)
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(2, 1)  # stdout is the protocol's: what a library prints goes to stderr
    inbox = Inbox()

    def tell(line: Line) -> None:
        out.write(json.dumps(line) + "\n")

    try:
        chat = Chat(options.run, options.step, tell)
    except UserError as error:
        tell({"event": "failed", "say": error.message, "fix": error.hint})
        return
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        tell({"event": "failed", "say": f"the model could not be loaded: {reason}", "fix": "see: minigrpo doctor"})
        return
    while True:
        try:
            asked = inbox.asked.get(timeout=options.idle)
        except queue.Empty:
            tell({"event": "idle"})
            return
        chat.answer(asked, inbox.stopped)


if __name__ == "__main__":
    main()
