"""The exception of this package."""

from __future__ import annotations

from typing import Any


class PyroError(Exception):
    """An operation of pyro failed.

    A command that fails in a machine is a result, not an exception.

    kind: the kind of failure, such as "not_found" or "unavailable"; docs/json.md lists all kinds.
    op, subject: the operation and its target, or empty if they are unknown.
    hint: a command or an action that fixes the failure, or empty if none is known.
    """

    def __init__(self, message: str, *, kind: str = "internal", hint: str = "", op: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.hint = hint
        self.op = op
        self.subject = subject

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _error, (self.message, self.kind, self.hint, self.op, self.subject)

    @classmethod
    def of(cls, error: dict[str, Any]) -> PyroError:
        """Return the exception for the error of a JSON-RPC response."""
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        said = {name: str(data[name]) for name in ("kind", "hint", "op", "subject") if name in data}
        return cls(str(error.get("message", "pyro gave no reason")), **said)


def _error(message: str, kind: str, hint: str, op: str, subject: str) -> PyroError:
    return PyroError(message, kind=kind, hint=hint, op=op, subject=subject)
