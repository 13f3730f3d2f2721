"""Tries several changes to a project concurrently.

Each change has its own workspace. The program writes the best change to a file.
"""

import json
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent


def try_all(pyro):
    patches = sorted((EXAMPLES / "candidates").glob("*.patch"))
    began = time.monotonic()
    with ThreadPoolExecutor(len(patches)) as pool:
        candidates = list(pool.map(lambda patch: try_one(pyro, patch), patches))
    print(f"{len(candidates)} workspaces in {time.monotonic() - began:.1f} s")
    for c in candidates:
        print(f"{c['name']}: the tests pass: {c['passed']}, {c['right']} cases are right")
    passing = [c for c in candidates if c["passed"]]
    if not passing:
        sys.exit("none of the changes passes the tests")
    best = max(passing, key=lambda c: c["right"])
    output = Path(tempfile.mkdtemp(prefix="parallel-")) / "best.patch"
    output.write_text(best["diff"])
    print(f"the best is {best['name']}: {output}")


def try_one(pyro, patch):
    """Creates a workspace from the project, applies a change and evaluates the change."""
    workspace = pyro.create_workspace(
        environment="debian:12", seed_path=str(EXAMPLES / "roman"), name="parallel", labels={"change": patch.name}
    )
    id = workspace["workspace_id"]
    try:
        pyro.apply_workspace_patch(id, patch=patch.read_text())
        diff = pyro.diff_workspace(id)["patch"]
        tests = pyro.exec_workspace(id, command="python3 -B -m unittest", timeout_seconds=120)
        pyro.write_workspace_file(id, "evaluation.py", text=(EXAMPLES / "roman_evaluation.py").read_text())
        evaluation = pyro.exec_workspace(id, command="python3 -B evaluation.py report.json", timeout_seconds=120)
        if evaluation["exit_code"] != 0:
            sys.exit(f"evaluation of {patch.name}:\n{evaluation['stderr']}")
        right = json.loads(evaluation["stdout"])["right"]
        return {"name": patch.name, "passed": tests["exit_code"] == 0, "right": right, "diff": diff}
    finally:
        pyro.delete_workspace(id)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspaces are deleted
    try:
        with Pyro() as pyro:
            try_all(pyro)
    except PyroError as error:
        sys.exit(f"parallel: {error}")
