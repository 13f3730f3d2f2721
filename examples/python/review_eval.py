"""Reviews a change.

Runs a check-list in a shell. Evaluates the change with a program that writes a report, and exports
the report. Then a reset removes all traces of the review.
"""

import json
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent

# The lines that are typed into one shell. Variables persist between the lines.
CHECKLIST = [
    ("settings for the rest", "export WIDTH=120 PYTHONDONTWRITEBYTECODE=1"),
    ("it compiles", """python3 -c 'compile(open("roman.py").read(), "roman.py", "exec")'"""),
    ("no line is too long", """awk -v w=$WIDTH 'length > w { print FILENAME ": " FNR; bad = 1 } END { exit bad }' roman.py"""),
    ("the tests pass", "python3 -m unittest --quiet"),
    ("no TODO is left", "! grep -n TODO *.py"),
]


def review(pyro):
    workspace = pyro.create_workspace(environment="debian:12", seed_path=str(EXAMPLES / "roman"), name="review-eval")
    id = workspace["workspace_id"]
    try:
        pyro.apply_workspace_patch(id, patch=(EXAMPLES / "roman.patch").read_text())
        kept = pyro.create_snapshot(id, "to-review")
        print(f"{id} has the change, kept as {kept['snapshot']['snapshot_name']}")
        go_through(pyro, id)

        pyro.write_workspace_file(id, "evaluation.py", text=(EXAMPLES / "roman_evaluation.py").read_text())
        result = pyro.exec_workspace(id, command="python3 -B evaluation.py report.json", timeout_seconds=60)
        if result["exit_code"] != 0:
            sys.exit(f"the evaluation ended with exit code {result['exit_code']}:\n{result['stderr']}")
        output = Path(tempfile.mkdtemp(prefix="review-eval-")) / "report.json"
        exported = pyro.export_workspace(id, "report.json", output_path=str(output))
        report = json.loads(output.read_text())
        print(f"{report['right']} of {report['cases']} cases are right: {exported['output_path']}")
        done = pyro.summarize_workspace(id)["outcome"]
        print("done: {command_count} commands, {edit_count} edits, {shell_count} shells, {export_count} exports".format(**done))

        # The reset removes everything that the review created, including the shell. The change
        # remains.
        pyro.reset_workspace(id, snapshot="to-review")
        for entry in pyro.diff_workspace(id)["entries"]:
            print("after the review differs from the baseline:", entry["path"])
    finally:
        pyro.delete_workspace(id)


def go_through(pyro, id):
    """Types the check-list into a shell line by line and reads the results."""
    shell = pyro.open_shell(id)["shell_id"]
    cursor, deadline = 0, time.monotonic() + 120
    for about, line in CHECKLIST:
        # The shell prints the exit code at the beginning of a line. The echo of the typed command
        # contains the same text, but not at the beginning of a line.
        pyro.write_shell(id, shell, input=line + '; echo "ended: $?"')
        seen, ended = "", None
        while not ended:
            out = pyro.read_shell(id, shell, cursor=cursor, plain=True, wait_for_idle_ms=300)
            seen, cursor = seen + out["output"], out["next_cursor"]
            ended = re.search(r"^ended: (\d+)\n", seen, re.MULTILINE)
            if not ended and (out["state"] != "running" or time.monotonic() > deadline):
                sys.exit(f"{about}: no end is seen\n{seen}")
        if ended[1] != "0":
            sys.exit(f"check: {about}: no\n{seen}")
        print("check:", about)
    pyro.close_shell(id, shell)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspace is deleted
    try:
        with Pyro() as pyro:
            review(pyro)
    except PyroError as error:
        sys.exit(f"review_eval: {error}")
