"""Tests of the server, which uses the standard streams of its process and ends with the process."""

import signal
import subprocess
import sys
import unittest

from support import PATIENCE, WithFake, alive, eventually

import pyro_mcp
from pyro_mcp import Pyro, PyroError, create_server

RUN = """
import sys
from pyro_mcp import create_server
create_server({profile!r}).run({args})
print("returned", file=sys.stderr)
"""


def setUpModule():
    """Let child processes handle SIGHUP. If nohup started these tests, they would ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    unittest.addModuleCleanup(signal.signal, signal.SIGHUP, before)


class Serving(WithFake):
    def start(self, profile="workspace-core", args=""):
        started = subprocess.Popen(
            [sys.executable, "-c", RUN.format(profile=profile, args=args)], env=self.script_env(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(started.__exit__, None, None, None)
        self.addCleanup(started.kill)
        return started

    def serving(self):
        """Return the PID and the arguments of the server."""
        noted = eventually(lambda: [n for n in self.notes() if n.startswith("serving ")])
        _, pid, called = noted[-1].split(" ", 2)
        return int(pid), called

    def test_profiles(self):
        self.assertEqual(create_server().profile, "workspace-full")
        with Pyro() as pyro:
            self.assertEqual(pyro.create_server().profile, "workspace-full")
            self.assertEqual(pyro.create_server("vm-run").profile, "vm-run")
        with self.assertRaises(PyroError) as caught:
            create_server("core")
        self.assertEqual(caught.exception.kind, "invalid_argument")
        self.assertEqual(sorted(pyro_mcp.__all__), ["Pyro", "PyroError", "Server", "create_server"])

    def test_stdio(self):
        out, errs = self.start().communicate("hello\nworld\n", timeout=PATIENCE)
        self.assertEqual((out, errs), ("served hello\nserved world\n", "returned\n"))

    def test_http(self):
        started = self.start(args='"http", listen="127.0.0.1:0", token="0123456789abcdef"')
        pid, called = self.serving()
        self.assertEqual(called, "mcp serve --profile workspace-core --transport http --listen 127.0.0.1:0 0123456789abcdef")
        for sent, says in ((signal.SIGTERM, "terminated"), (signal.SIGHUP, "hung up")):
            started.send_signal(sent)
            self.assertEqual(started.wait(PATIENCE), -sent)
            self.assertFalse(alive(pid))
            self.assertIn(says, self.notes())
            if sent == signal.SIGTERM:
                self.noted.write_text("")
                started = self.start(args='"http"')
                pid, _ = self.serving()

    def test_interrupt(self):
        started = self.start(args='"http"')
        pid, _ = self.serving()
        started.send_signal(signal.SIGINT)
        _, errs = started.communicate(timeout=PATIENCE)
        self.assertIn("KeyboardInterrupt", errs)
        self.assertFalse(alive(pid))

    def test_killed(self):
        started = self.start(args='"http"')
        pid, _ = self.serving()
        started.kill()
        started.wait()
        eventually(lambda: not alive(pid), "the server is still running")
        self.assertIn("terminated", self.notes())

    def test_failure(self):
        _, errs = self.start(profile="vm-run").communicate("", timeout=PATIENCE)
        self.assertIn("pyro mcp serve ended with exit code 9", errs)
