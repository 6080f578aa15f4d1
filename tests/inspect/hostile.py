"""A log whose every text wants to be more than text."""

from __future__ import annotations

import json
from pathlib import Path

from mcgpo_data import BuildConfig, BuildOptions, Store, build_preferences, open_store

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
TURNED = "\u202egnp.exe\u2066 \u200f"
CONTROL = "\x1b[31mred\x07 \x85 \u2028"
MARKUP = "{{ 7 * 7 }} {% raw %} $\\frac{1}{0}$ &lt;b&gt; ]]> -->"
EVERY = SCRIPT + IMAGE + TURNED + CONTROL + MARKUP


def hostile_log(path: Path, rollouts: int = 16) -> Path:
    """Two actions in one state; the first one succeeds more often."""
    lines = []
    for number in range(rollouts):
        good = number % 2 == 0
        act = "left" if good else "right"
        lines.append(
            {
                "task_id": f"task {EVERY}",
                "rollout_id": f"r{number} {EVERY}",
                "step": 0,
                "observation": f"room {EVERY}",
                "prompt": [{"role": "system", "content": SCRIPT}, {"role": "user", "content": f"prompt {EVERY}"}],
                "response": f"{EVERY} {act}",
                "action": f"go {act} {EVERY}",
                "action_valid": True,
                "done": True,
                "success": good if number % 5 else not good,
            }
        )
        second = lines[-1] | {"step": 1, "observation": f"end {number}", "action": f"stop {number}", "prompt": [
            {"role": "user", "content": f"end {number}"}]}  # fmt: skip
        lines[-1] = lines[-1] | {"done": False, "success": None}
        lines.append(second)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def hostile_store(folder: Path) -> Store:
    """A build of it."""
    log = hostile_log(folder / f"log {SCRIPT.replace('/', '_')}.jsonl")
    build_preferences([log], folder / "out", BuildConfig(), BuildOptions(workers=1))
    return open_store(folder / "out")
