"""Machines for one command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._call import OnProgress, OnText
from ._client import Client, Result, program_of


class Machines(Client):
    """What can be done with machines that are thrown away."""

    def run_in_vm(
        self,
        *,
        environment: str,
        command: str | Sequence[str],
        vcpu_count: int = 1,
        mem_mib: int = 1024,
        timeout_seconds: int = 30,
        ttl_seconds: int = 600,
        network: bool = False,
        allow_host_compat: bool = False,
        env: Mapping[str, str] | None = None,
        isolation: str | None = None,
        egress_allow: Sequence[str] | None = None,
        egress_deny: Sequence[str] | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Run one command in a fresh machine, which is then removed.

        command is a line for /bin/sh, or a program with its arguments as a list. on_stdout and on_stderr get what it prints as it comes; bytes that are no text
        come as U+FFFD there, and as they are in the result, in base64.
        """
        params = {
            "environment": environment, **program_of(command), "vcpu_count": vcpu_count, "mem_mib": mem_mib, "timeout_seconds": timeout_seconds,
            "ttl_seconds": ttl_seconds, "network": network, "allow_host_compat": allow_host_compat, "env": env, "isolation": isolation,
            "egress_allow": egress_allow, "egress_deny": egress_deny,
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
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Make a machine for one command, which start_vm starts."""
        params = {
            "environment": environment, "vcpu_count": vcpu_count, "mem_mib": mem_mib, "ttl_seconds": ttl_seconds, "network": network,
            "allow_host_compat": allow_host_compat, "isolation": isolation, "egress_allow": egress_allow, "egress_deny": egress_deny,
        }
        return self._call("create_vm", params, on_progress=on_progress)

    def start_vm(self, vm_id: str) -> Result:
        """Start a machine that was created."""
        return self._call("start_vm", {"vm_id": vm_id})

    def exec_vm(self, vm_id: str, *, command: str | Sequence[str], timeout_seconds: int = 30, env: Mapping[str, str] | None = None) -> Result:
        """Run one command in a started machine, which is then deleted."""
        return self._call("exec_vm", {"vm_id": vm_id, **program_of(command), "timeout_seconds": timeout_seconds, "env": env})

    def stop_vm(self, vm_id: str) -> Result:
        """Stop a machine. It can be started again until its time is over."""
        return self._call("stop_vm", {"vm_id": vm_id})

    def delete_vm(self, vm_id: str) -> Result:
        """Delete a machine, whatever state it is in."""
        return self._call("delete_vm", {"vm_id": vm_id})

    def status_vm(self, vm_id: str) -> Result:
        """Tell what a machine is now."""
        return self._call("status_vm", {"vm_id": vm_id})

    def network_info_vm(self, vm_id: str) -> Result:
        """Tell what network a machine has."""
        return self._call("network_info_vm", {"vm_id": vm_id})

    def reap_expired(self) -> Result:
        """Delete the machines whose time is over."""
        return self._call("reap_expired", {})
