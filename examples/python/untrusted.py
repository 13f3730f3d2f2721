"""Runs untrusted code without a network.

Inspects the result in the running machine, then stops the machine and inspects its disk.
"""

import shlex
import signal
import socket
import sys
import tempfile
from pathlib import Path

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent


def inspect(pyro):
    # Create two targets on the host: a file, and a port that must not get connections. The code
    # gets their addresses.
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
                print(f"  it says {line!a}")  # quoted: untrusted output must not reach the terminal unchanged
            print("it ended with exit code", result["exit_code"])

            # Inspect the effects in the machine.
            if result.get("out_of_memory"):
                print("its machine ran out of memory")  # the machine might have ended too
            else:
                look_inside(pyro, id)

            # Check that the host is unchanged.
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
    """Inspects the running machine."""
    command = r"cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -c '[s]uspicious.py'"
    print("processes it left in its machine:", pyro.exec_workspace(id, command=command)["stdout"].strip())
    for entry in pyro.diff_workspace(id)["entries"]:
        print(entry["status"], entry["path"])


def look_at_disk(pyro, id, image):
    """Inspects the disk without running any program, so malware can't hide."""
    try:
        entries = pyro.list_workspace_disk(id)["entries"]
    except PyroError as error:
        if error.kind != "unsupported":
            raise
        print("its disk can't be read here:", error)
        return
    for entry in entries:
        print(f"on its disk: {entry['path']}, {entry['size_bytes']} bytes")
    loot = pyro.read_workspace_disk(id, "loot.txt")["content"].strip()
    print(f"its loot is {loot!a}, the name of its own machine")
    exported = pyro.export_workspace_disk(id, output_path=str(image))
    print(f"the whole disk, for tools of your own: {exported['output_path']}, {exported['disk_format']}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspace is deleted
    try:
        with Pyro() as pyro:
            inspect(pyro)
    except PyroError as error:
        sys.exit(f"untrusted: {error}")
