"""Helpers for tests."""

import os
import pathlib
import shlex
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent / "src"
PATIENCE = 30.0


def eventually(true, what="the condition did not become true"):
    """Wait until a condition is true. Fail after PATIENCE."""
    until = time.monotonic() + PATIENCE
    while not (value := true()):
        if time.monotonic() > until:
            raise AssertionError(what)
        time.sleep(0.01)
    return value


def alive(pid):
    """Return whether a process exists and is not a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(") ")[2][0] != "Z"


class WithFake(unittest.TestCase):
    """A test that uses fake.py as pyro."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "pyro"
        self.program.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'fake.py'))} \"$@\"\n")
        self.program.chmod(0o755)
        self.noted = self.folder / "notes"
        self.noted.touch()
        for name, value in (("FAKE_NOTES", str(self.noted)), ("PYRO_PROGRAM", str(self.program))):
            self.setenv(name, value)

    def setenv(self, name, value):
        before = os.environ.get(name)
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None else os.environ.update({name: before}))
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    def notes(self):
        return self.noted.read_text().splitlines()

    def script_env(self):
        """Return the environment variables for a child Python that imports the package."""
        return {**os.environ, "PYTHONPATH": str(SOURCE)}
