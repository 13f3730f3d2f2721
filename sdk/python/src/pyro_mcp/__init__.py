"""pyro gives an AI agent a computer of its own on any Linux machine.

Start with `Pyro`:

    from pyro_mcp import Pyro

    with Pyro() as pyro:
        print(pyro.run_in_vm(environment="debian:12", command="uname -a")["stdout"])

`create_server` serves the same operations to an agent over the Model Context Protocol.
"""

from .errors import PyroError
from .pyro import Pyro
from .server import Server, create_server

__all__ = ["Pyro", "PyroError", "Server", "create_server"]
