"""Runs code that nobody should trust, without a network, and looks at what it did: while its machine runs, and at its disk when it does not."""

import shlex
import signal
import socket
import sys
import tempfile
from pathlib import Path

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent


def inspect(pyro):
    # What it could reach on the host: a file, and a port that nothing should ever connect to. The code is told of both.
    folder = Path(tempfile.mkdtemp(prefix="untrusted-"))
    bait, content = folder / "bait", "of the host"
    bait.write_text(content)
    workspace = pyro.create_workspace(
        environment="debian:12", seed_path=str(EXAMPLES / "untrusted"), name="untrusted", network_policy="off", ttl_seconds=300
    )
    id = workspace["workspace_id"]
    try:
        print(f"running it in {id}, isolated by {workspace['isolation']}, network {workspace['network_policy']}")
        with socket.create_server(("127.0.0.1", 0)) as port:
            command = shlex.join(["python3", "-uB", "suspicious.py", str(bait), str(port.getsockname()[1])])
            result = pyro.exec_workspace(id, command=command, timeout_seconds=120)
            for line in result["stdout"].splitlines():
                print(f"  it says {line!a}")  # quoted: what it prints must not reach the terminal as it is
            print("it ended with exit code", result["exit_code"])

            # What came of it in its machine.
            if result.get("out_of_memory"):
                print("its machine ran out of memory")  # and may have ended
            else:
                look_inside(pyro, id)

            # And on the host: nothing.
            if bait.read_text() != content:
                sys.exit("the file on the host is not what it was")
            port.settimeout(0.1)
            try:
                port.accept()
                sys.exit("it reached the host")
            except TimeoutError:
                print("on the host: the file is as it was, and nothing has connected")
        pyro.stop_workspace(id)
        look_at_disk(pyro, id, folder / "disk.ext4")
    finally:
        pyro.delete_workspace(id)


def look_inside(pyro, id):
    """Looks at what the code has left in its machine."""
    command = r"cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -c '[s]uspicious.py'"
    print("processes it left in its machine:", pyro.exec_workspace(id, command=command)["stdout"].strip())
    for entry in pyro.diff_workspace(id)["entries"]:
        print(entry["status"], entry["path"])


def look_at_disk(pyro, id, image):
    """Looks at what the code has left without running anything: what would hide itself from a running system can't there."""
    try:
        entries = pyro.list_workspace_disk(id)["entries"]
    except PyroError as error:
        if error.kind != "unsupported":
            raise
        print("its disk can't be looked at here:", error)
        return
    for entry in entries:
        print(f"on its disk: {entry['path']}, {entry['size_bytes']} bytes")
    loot = pyro.read_workspace_disk(id, "loot.txt")["content"].strip()
    print(f"its loot is {loot!a}, the name of its own machine")
    exported = pyro.export_workspace_disk(id, output_path=str(image))
    print(f"the whole disk, for tools of your own: {exported['output_path']}, {exported['disk_format']}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspace is deleted then, too
    try:
        with Pyro() as pyro:
            inspect(pyro)
    except PyroError as error:
        sys.exit(f"untrusted: {error}")
