"""Starts a web service from scratch.

Creates a machine, starts the service, connects to the service from the host, and deletes
everything.
"""

import signal
import socket
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from pyro_mcp import Pyro, PyroError

EXAMPLES = Path(__file__).resolve().parent.parent


def cold_start(pyro):
    began = time.monotonic()
    workspace = pyro.create_workspace(
        environment="debian:12", seed_path=str(EXAMPLES / "visits"), name="cold-start", network_policy="egress+published-ports"
    )
    id = workspace["workspace_id"]
    try:
        service = pyro.start_service(
            id,
            "visits",
            command="exec python3 -u app.py",
            readiness={"type": "http", "target": "http://127.0.0.1:8000/health"},
            published_ports=[{"guest_port": 8000}],  # on a free port of the host
        )
        port = service["published_ports"][0]["host_port"]
        took = time.monotonic() - began
        print(f"from nothing to {service['state']} at http://127.0.0.1:{port} in {took:.1f} s, isolated by {workspace['isolation']}")

        direct = build_opener(ProxyHandler({}))  # a proxy can't reach this host's loopback interface
        for _ in range(3):
            with direct.open(f"http://127.0.0.1:{port}/hello", timeout=30) as answer:
                print(answer.read().decode(), end="")

        service = pyro.stop_service(id, "visits")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            print(f"it is {service['state']}, and nothing listens there any more")
        else:
            sys.exit(f"something answers at port {port} although the service is {service['state']}")
        # The output is available until the workspace is deleted. While the service runs, the last
        # lines might be missing.
        logs = pyro.logs_service(id, "visits")
        print("it logged", logs["stderr"].count("GET /hello "), "visits")
    finally:
        pyro.delete_workspace(id)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workspace is deleted
    try:
        with Pyro() as pyro:
            cold_start(pyro)
    except PyroError as error:
        sys.exit(f"cold_start: {error}")
