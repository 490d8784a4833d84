"""Time the first commands of the README in a clean clone and write the seconds into it.

`python docs/make/readme_seconds.py` takes about seven minutes on two idle cores.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- commands:.*?-->\n```\n)(.*?)(```)", re.DOTALL)


def main() -> None:
    """Run, time and write."""
    text = README.read_text()
    found = BLOCK.search(text)
    assert found
    parts = [re.split(r"\s+# (?:\d+ s: )?", line, maxsplit=1) for line in found[2].splitlines()]
    wide = max(len(command) for command, _ in parts)
    with tempfile.TemporaryDirectory() as folder:
        here, door = Path(folder) / "unbraid", Path(folder) / "bin" / "unbraid"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(here)], check=True)
        door.parent.mkdir()
        door.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unbraid "$@"\n')
        door.chmod(0o755)
        changed = {
            "PATH": f"{door.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(here),
            "UNBRAID_CACHE": str(Path(folder) / "cache"),
        }
        lines = []
        for command, comment in parts:
            began = time.perf_counter()
            subprocess.run(["sh", "-c", command], cwd=here, env=os.environ | changed, check=True, capture_output=True)
            lines.append(f"{command:<{wide}}  # {max(1, round(time.perf_counter() - began))} s: {comment}")
            print(lines[-1], flush=True)
    README.write_text(text[: found.start(2)] + "\n".join(lines) + "\n" + text[found.end(2) :])


if __name__ == "__main__":
    main()
