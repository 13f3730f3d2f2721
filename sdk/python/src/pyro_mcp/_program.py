"""Where the command pyro is."""

from __future__ import annotations

import os
import shutil

from .errors import PyroError

HINT = "install pyro, and put it in PATH or set PYRO_PROGRAM to its path"


def find_program(given: str | os.PathLike[str] | None = None) -> str:
    """Find pyro: what is given, else PYRO_PROGRAM, else in PATH."""
    named = os.fspath(given) if given else os.environ.get("PYRO_PROGRAM", "")
    found = shutil.which(named or "pyro")
    if found:
        return os.path.abspath(found)
    where = f"{named} is no program" if named else "it is not in PATH"
    raise PyroError(f"find the command pyro: {where}", kind="unavailable", op="find the command pyro", subject=named, hint=HINT)
