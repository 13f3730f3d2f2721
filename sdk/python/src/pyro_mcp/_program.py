"""Finds the program pyro."""

from __future__ import annotations

import os
import shutil

from .errors import PyroError

HINT = "install pyro, then add it to PATH or set PYRO_PROGRAM to its path"


def find_program(given: str | os.PathLike[str] | None = None) -> str:
    """Return the absolute path of pyro: the given path, else PYRO_PROGRAM, else pyro in PATH."""
    named = os.fspath(given) if given else os.environ.get("PYRO_PROGRAM", "")
    found = shutil.which(named or "pyro")
    if found:
        return os.path.abspath(found)
    where = f"{named} is not a program" if named else "it is not in PATH"
    raise PyroError(f"find the command pyro: {where}", kind="unavailable", op="find the command pyro", subject=named, hint=HINT)
