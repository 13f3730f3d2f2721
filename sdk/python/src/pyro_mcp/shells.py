"""Shells: programs on terminals in a workspace."""

from __future__ import annotations

from collections.abc import Mapping

from ._client import Client, Result


class Shells(Client):
    """Operations on shells. Shells keep running after this program has ended."""

    def open_shell(
        self,
        workspace_id: str,
        *,
        cwd: str = "/workspace",
        cols: int = 120,
        rows: int = 30,
        secret_env: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Result:
        """Open a shell. user is as in run_in_vm."""
        params = {"workspace_id": workspace_id, "cwd": cwd, "cols": cols, "rows": rows, "secret_env": secret_env, "env": env, "user": user}
        return self._call("open_shell", params)

    def list_shells(self, workspace_id: str) -> Result:
        """List the open shells of a workspace."""
        return self._call("list_shells", {"workspace_id": workspace_id})

    def read_shell(
        self,
        workspace_id: str,
        shell_id: str,
        *,
        cursor: int = 0,
        max_chars: int = 65536,
        plain: bool = False,
        wait_for_idle_ms: int | None = None,
    ) -> Result:
        """Read the output of a shell, starting at a cursor.

        The cursor is 0 or the next_cursor of the previous read. With plain, the result is the text as
        a terminal would show it.
        """
        params = {
            "workspace_id": workspace_id, "shell_id": shell_id, "cursor": cursor, "max_chars": max_chars, "plain": plain, "wait_for_idle_ms": wait_for_idle_ms,
        }
        return self._call("read_shell", params)

    def write_shell(self, workspace_id: str, shell_id: str, *, input: str, append_newline: bool = True) -> Result:
        """Type into a shell."""
        return self._call("write_shell", {"workspace_id": workspace_id, "shell_id": shell_id, "input": input, "append_newline": append_newline})

    def signal_shell(self, workspace_id: str, shell_id: str, *, signal_name: str = "INT") -> Result:
        """Send a signal to the program in a shell."""
        return self._call("signal_shell", {"workspace_id": workspace_id, "shell_id": shell_id, "signal_name": signal_name})

    def resize_shell(self, workspace_id: str, shell_id: str, *, cols: int, rows: int) -> Result:
        """Set the size of a shell's terminal."""
        return self._call("resize_shell", {"workspace_id": workspace_id, "shell_id": shell_id, "cols": cols, "rows": rows})

    def close_shell(self, workspace_id: str, shell_id: str) -> Result:
        """Close a shell and end its programs."""
        return self._call("close_shell", {"workspace_id": workspace_id, "shell_id": shell_id})
