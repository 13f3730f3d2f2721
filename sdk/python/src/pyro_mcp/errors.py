"""The one error of this package."""

from __future__ import annotations

from typing import Any


class PyroError(Exception):
    """Pyro could not do what it was asked for.

    A command that fails in a machine is a result and no error.

    kind: what sort of failure it is, such as "not_found" or "unavailable"; docs/json.md has all.
    op, subject: what was being done, and to what; empty where that is not known.
    hint: a command or a step that mends it, or empty.
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
        """The error of a JSON-RPC answer."""
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        said = {name: str(data[name]) for name in ("kind", "hint", "op", "subject") if name in data}
        return cls(str(error.get("message", "pyro tells no reason")), **said)


def _error(message: str, kind: str, hint: str, op: str, subject: str) -> PyroError:
    return PyroError(message, kind=kind, hint=hint, op=op, subject=subject)
