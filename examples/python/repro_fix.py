"""Reproduces a bug in a workspace, fixes the bug, shows that the fix works, and exports the fix.

Then it resets the workspace and reproduces the bug again.
"""

import signal
import sys
import tempfile
from pathlib import Path

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent


def reproduce_and_fix(pyro):
    workspace = pyro.create_workspace(environment="debian:12", seed_path=str(EXAMPLES / "roman"), name="repro-fix")
    id = workspace["workspace_id"]
    try:
        print(f"created {id} with {workspace['workspace_seed']['files']} files, isolated by {workspace['isolation']}")
        test(pyro, id, passes=False)
        file = pyro.read_workspace_file(id, "roman.py")
        print(f"roman.py has {file['size_bytes']} bytes and knows XL:", '"XL"' in file["content"])

        applied = pyro.apply_workspace_patch(id, patch=(EXAMPLES / "roman.patch").read_text())
        print("patched", applied["entries"][0]["path"])
        test(pyro, id, passes=True)
        print(pyro.diff_workspace(id)["patch"], end="")

        output = Path(tempfile.mkdtemp(prefix="repro-fix-")) / "roman.py"
        exported = pyro.export_workspace(id, "roman.py", output_path=str(output))
        print("exported to", exported["output_path"])

        # Reset to the baseline: the original files in a new machine.
        workspace = pyro.reset_workspace(id)
        changed = pyro.diff_workspace(id)["changed"]
        print(f"reset {workspace['reset_count']} time; anything differs from the baseline: {changed}")
        test(pyro, id, passes=False)
    finally:
        pyro.delete_workspace(id)


def test(pyro, id, passes):
    """Runs the tests and checks the result. A failed command is a result and not an exception."""
    result = pyro.exec_workspace(id, command="python3 -B -m unittest", timeout_seconds=60)
    print(f"the tests end with exit code {result['exit_code']}: {result['stderr'].strip().splitlines()[-1]}")
    if (result["exit_code"] == 0) != passes:
        sys.exit(f"the tests should {'pass' if passes else 'fail'}:\n{result['stderr']}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspace is deleted
    try:
        with Pyro() as pyro:
            reproduce_and_fix(pyro)
    except PyroError as error:
        sys.exit(f"repro_fix: {error}")
