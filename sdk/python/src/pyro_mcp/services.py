"""Services: programs in the background of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._client import Client, Result, program_of


class Services(Client):
    """What can be done with services."""

    def start_service(
        self,
        workspace_id: str,
        service_name: str,
        *,
        command: str | Sequence[str],
        cwd: str = "/workspace",
        readiness: Mapping[str, str] | None = None,
        ready_timeout_seconds: int = 30,
        ready_interval_ms: int = 500,
        secret_env: Mapping[str, str] | None = None,
        published_ports: Sequence[Mapping[str, Any]] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Start a program in the background under a name, and wait until it is ready.

        readiness is {"type": …, "target": …}, of type file, tcp, http or command. published_ports are {"guest_port": …} each, with a "host_port" or without.
        """
        params = {
            "workspace_id": workspace_id, "service_name": service_name, **program_of(command), "cwd": cwd, "readiness": readiness,
            "ready_timeout_seconds": ready_timeout_seconds, "ready_interval_ms": ready_interval_ms, "secret_env": secret_env,
            "published_ports": published_ports, "env": env,
        }
        return self._call("start_service", params)

    def list_services(self, workspace_id: str) -> Result:
        """The services of a workspace."""
        return self._call("list_services", {"workspace_id": workspace_id})

    def status_service(self, workspace_id: str, service_name: str) -> Result:
        """Tell what a service does."""
        return self._call("status_service", {"workspace_id": workspace_id, "service_name": service_name})

    def logs_service(self, workspace_id: str, service_name: str, *, tail_lines: int = 200, all: bool = False) -> Result:
        """What a service printed last, or all that is kept."""
        return self._call("logs_service", {"workspace_id": workspace_id, "service_name": service_name, "tail_lines": tail_lines, "all": all})

    def stop_service(self, workspace_id: str, service_name: str) -> Result:
        """End a service, with all that it started."""
        return self._call("stop_service", {"workspace_id": workspace_id, "service_name": service_name})
