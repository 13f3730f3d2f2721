"""Machines that run one command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._call import OnProgress, OnText
from ._client import Client, Result, program_of


class Machines(Client):
    """Operations on disposable machines."""

    def run_in_vm(
        self,
        *,
        environment: str,
        command: str | Sequence[str] | None,
        vcpu_count: int = 1,
        mem_mib: int = 1024,
        timeout_seconds: int = 30,
        ttl_seconds: int = 600,
        network: bool = False,
        allow_host_compat: bool = False,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        isolation: str | None = None,
        egress_allow: Sequence[str] | None = None,
        egress_deny: Sequence[str] | None = None,
        host_network_settings: bool | None = None,
        host_network_credentials: Sequence[str] | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Run a command in a new machine, then delete the machine.

        command is a /bin/sh command, or a list with a program and its arguments. None runs the
        environment's own command: its entrypoint followed by its cmd. user is a name or number,
        optionally with :group. user and cwd are the environment's by default. on_stdout and on_stderr
        receive the output while the command runs. They receive U+FFFD for bytes that are not valid
        UTF-8. The result then contains the original bytes in base64.
        """
        params = {
            "environment": environment, **({} if command is None else program_of(command)), "vcpu_count": vcpu_count, "mem_mib": mem_mib,
            "timeout_seconds": timeout_seconds, "ttl_seconds": ttl_seconds, "network": network, "allow_host_compat": allow_host_compat, "env": env, "user": user, "cwd": cwd, "isolation": isolation,
            "egress_allow": egress_allow, "egress_deny": egress_deny,
            "host_network_settings": host_network_settings, "host_network_credentials": host_network_credentials,
        }
        return self._call("run_in_vm", params, on_stdout=on_stdout, on_stderr=on_stderr, on_progress=on_progress)

    def create_vm(
        self,
        *,
        environment: str,
        vcpu_count: int = 1,
        mem_mib: int = 1024,
        ttl_seconds: int = 600,
        network: bool = False,
        allow_host_compat: bool = False,
        isolation: str | None = None,
        egress_allow: Sequence[str] | None = None,
        egress_deny: Sequence[str] | None = None,
        host_network_settings: bool | None = None,
        host_network_credentials: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Create a machine for one command. Call start_vm to start the machine."""
        params = {
            "environment": environment, "vcpu_count": vcpu_count, "mem_mib": mem_mib, "ttl_seconds": ttl_seconds, "network": network,
            "allow_host_compat": allow_host_compat, "isolation": isolation, "egress_allow": egress_allow, "egress_deny": egress_deny,
            "host_network_settings": host_network_settings, "host_network_credentials": host_network_credentials,
        }
        return self._call("create_vm", params, on_progress=on_progress)

    def start_vm(self, vm_id: str) -> Result:
        """Start a machine."""
        return self._call("start_vm", {"vm_id": vm_id})

    def exec_vm(self, vm_id: str, *, command: str | Sequence[str], timeout_seconds: int = 30, env: Mapping[str, str] | None = None) -> Result:
        """Run one command in a started machine, then delete the machine."""
        return self._call("exec_vm", {"vm_id": vm_id, **program_of(command), "timeout_seconds": timeout_seconds, "env": env})

    def stop_vm(self, vm_id: str) -> Result:
        """Stop a machine. It can be started again until it expires."""
        return self._call("stop_vm", {"vm_id": vm_id})

    def delete_vm(self, vm_id: str) -> Result:
        """Delete a machine in any state."""
        return self._call("delete_vm", {"vm_id": vm_id})

    def status_vm(self, vm_id: str) -> Result:
        """Return the state of a machine."""
        return self._call("status_vm", {"vm_id": vm_id})

    def network_info_vm(self, vm_id: str) -> Result:
        """Describe the network of a machine."""
        return self._call("network_info_vm", {"vm_id": vm_id})

    def reap_expired(self) -> Result:
        """Delete expired machines."""
        return self._call("reap_expired", {})
