"""The run folder, the only truth of a run: written by one process under a lock, read by any, trusted by none."""

from minigrpo.runfolder.checkpoints import (
    Checkpoint,
    checkpoint_steps,
    load_checkpoint,
    rewind,
    save_adapter,
    save_checkpoint,
)
from minigrpo.runfolder.control import COMMANDS, Command, Control, reply, send
from minigrpo.runfolder.folder import create, describe, lock, read_run
from minigrpo.runfolder.groups import group_line
from minigrpo.runfolder.logs import Logs, lines, tail
from minigrpo.runfolder.reading import read_config, row, runs, summary
from minigrpo.runfolder.status import PHASES, STATES, Status, read_status, state

__all__ = [
    "COMMANDS",
    "PHASES",
    "STATES",
    "Checkpoint",
    "Command",
    "Control",
    "Logs",
    "Status",
    "checkpoint_steps",
    "create",
    "describe",
    "group_line",
    "lines",
    "load_checkpoint",
    "lock",
    "read_config",
    "read_run",
    "read_status",
    "reply",
    "rewind",
    "row",
    "runs",
    "save_adapter",
    "save_checkpoint",
    "send",
    "state",
    "summary",
    "tail",
]
