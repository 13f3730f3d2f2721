"""Services: background programs of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._client import Client, Result, program_of


class Services(Client):
    """Operations on services."""

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
        restart: str | None = None,
        user: str | None = None,
    ) -> Result:
        """Start a named program in the background, and wait until the program is ready.

        readiness is {"type": …, "target": …}. The type is file, tcp, http or command. Each published
        port is {"guest_port": …}, optionally with "host_port". restart says when the program is started
        again after its end: no (the default), on-failure or always. user is as in run_in_vm.
        """
        params = {
            "workspace_id": workspace_id, "service_name": service_name, **program_of(command), "cwd": cwd, "readiness": readiness,
            "ready_timeout_seconds": ready_timeout_seconds, "ready_interval_ms": ready_interval_ms, "secret_env": secret_env,
            "published_ports": published_ports, "env": env, "restart": restart, "user": user,
        }
        return self._call("start_service", params)

    def list_services(self, workspace_id: str) -> Result:
        """List the services of a workspace."""
        return self._call("list_services", {"workspace_id": workspace_id})

    def status_service(self, workspace_id: str, service_name: str) -> Result:
        """Return the state of a service."""
        return self._call("status_service", {"workspace_id": workspace_id, "service_name": service_name})

    def logs_service(self, workspace_id: str, service_name: str, *, tail_lines: int = 200, all: bool = False) -> Result:
        """Return the last lines of a service's output. With all, return all stored output."""
        return self._call("logs_service", {"workspace_id": workspace_id, "service_name": service_name, "tail_lines": tail_lines, "all": all})

    def stop_service(self, workspace_id: str, service_name: str) -> Result:
        """Stop a service and all its processes."""
        return self._call("stop_service", {"workspace_id": workspace_id, "service_name": service_name})

    def publish_service(self, workspace_id: str, service_name: str, *, published_ports: Sequence[Mapping[str, Any]]) -> Result:
        """Publish more ports of a running service.

        Each port is {"guest_port": …}, optionally with "host_port".
        """
        return self._call("publish_service", {"workspace_id": workspace_id, "service_name": service_name, "published_ports": published_ports})

    def unpublish_service(self, workspace_id: str, service_name: str, *, guest_ports: Sequence[int]) -> Result:
        """Close published ports of a running service, with all their connections."""
        return self._call("unpublish_service", {"workspace_id": workspace_id, "service_name": service_name, "guest_ports": guest_ports})
