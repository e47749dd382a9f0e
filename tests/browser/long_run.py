"""A long run in seconds: the groups of a short one, again and again under new steps."""

import json
from pathlib import Path

from browser import fake_trainer
from minigrpo import runfolder


def write(run: Path, steps: int, groups: int = 5) -> Path:
    """A finished run of `steps` steps with `groups` groups each."""
    fake_trainer.main([str(run), "--steps", "10", "--groups", str(groups)])
    shard, log = run / "groups" / "000000.jsonl", run / "events.jsonl"
    lines, events = list(runfolder.lines(shard)), list(runfolder.lines(log))
    step_events = [e for e in events if e["event"] == "Step"]
    t = events[0]["t"]
    with shard.open("w") as to, log.open("w") as told:
        told.writelines(json.dumps(e) + "\n" for e in events if e["step"] == 0)
        for step in range(1, steps + 1):
            for i, line in enumerate(g for g in lines if g["step"] == (step - 1) % 10 + 1):
                to.write(json.dumps(line | {"step": step, "gid": f"{step}-{i}", "t": t + step}) + "\n")
            told.write(json.dumps(step_events[(step - 1) % 10] | {"step": step, "t": t + step}) + "\n")
        told.writelines(json.dumps(e | {"step": steps}) + "\n" for e in events if e["event"] == "Ended")
    status = json.loads((run / "status.json").read_text()) | {"step": steps, "max_steps": steps}
    (run / "status.json").write_text(json.dumps(status))
    return run
