"""Commands of a workspace that run in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._client import Client, Result, program_of


class Commands(Client):
    """Operations on commands. A started command continues after this program has ended.

    The number of a command in the history identifies it: the field sequence of the results.
    """

    def start_command(
        self,
        workspace_id: str,
        *,
        command: str | Sequence[str],
        timeout_seconds: int | None = None,
        cwd: str | None = None,
        secret_env: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Result:
        """Start a command in /workspace in the background, and return when it runs.

        The arguments are as in exec_workspace, but by default the command has no time limit.
        """
        params = {
            "workspace_id": workspace_id, **program_of(command), "timeout_seconds": timeout_seconds, "cwd": cwd, "secret_env": secret_env, "env": env,
            "user": user,
        }
        return self._call("start_command", params)

    def list_commands(self, workspace_id: str) -> Result:
        """List the commands of a workspace that have not ended."""
        return self._call("list_commands", {"workspace_id": workspace_id})

    def read_command(
        self, workspace_id: str, sequence: int, *, cursor: str | None = None, max_chars: int = 65536, wait_seconds: int | None = None
    ) -> Result:
        """Read the output of a command, starting at a cursor: next_cursor of the previous read.

        With wait_seconds, wait for new output or the end of the command, but at most this time.
        """
        params = {"workspace_id": workspace_id, "sequence": sequence, "cursor": cursor, "max_chars": max_chars, "wait_seconds": wait_seconds}
        return self._call("read_command", params)

    def wait_command(self, workspace_id: str, sequence: int, *, timeout_seconds: int | None = None) -> Result:
        """Wait for a command to end. If it still runs after timeout_seconds, its state is running."""
        return self._call("wait_command", {"workspace_id": workspace_id, "sequence": sequence, "timeout_seconds": timeout_seconds})

    def kill_command(self, workspace_id: str, sequence: int, *, signal_name: str = "KILL") -> Result:
        """End a command with all processes that it started, or send another signal to it."""
        return self._call("kill_command", {"workspace_id": workspace_id, "sequence": sequence, "signal_name": signal_name})
