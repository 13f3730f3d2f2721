"""Tests of calls, including calls to a child that misbehaves."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support import PATIENCE, WithFake, alive, eventually

from pyro_mcp import Pyro, PyroError


class Client(WithFake):
    def setUp(self):
        super().setUp()
        self.pyro = Pyro()
        self.addCleanup(self.pyro.close)

    def fails(self, kind, call, *args, **kwargs):
        with self.assertRaises(PyroError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        return caught.exception

    def test_nothing_is_started_before_a_call(self):
        self.assertEqual(self.notes(), [])
        said = self.pyro.status_workspace("ws-1")
        self.assertEqual((said["method"], said["params"]), ("status_workspace", {"workspace_id": "ws-1"}))
        self.assertEqual(self.notes(), [f"started {said['pid']}"])
        self.assertEqual(self.pyro.list_workspaces()["pid"], said["pid"])

    def test_close_ends_the_child(self):
        pid = self.pyro.list_workspaces()["pid"]
        self.pyro.close()
        self.assertFalse(alive(pid))
        self.assertEqual(self.notes()[-1], "ended")
        self.pyro.close()
        self.fails("failed_precondition", self.pyro.list_workspaces)
        Pyro().close()

    def test_with(self):
        with Pyro(state_dir=self.folder) as pyro:
            said = pyro.list_workspaces()
        self.assertFalse(alive(said["pid"]))
        self.assertEqual(said["state"], str(self.folder))

    def test_a_pyro_that_is_dropped_leaves_no_child(self):
        pyro = Pyro()
        pid = pyro.list_workspaces()["pid"]
        del pyro
        eventually(lambda: not alive(pid), "the child is still running")

    def test_errors(self):
        error = self.fails("not_found", self.pyro.status_workspace, "error")
        self.assertEqual((error.message, error.op, error.subject, error.hint), ("no such workspace", "find workspace", "ws-1", "pyro workspace list"))
        self.assertEqual(str(error), "no such workspace\nhint: pyro workspace list")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.kind, again.op, again.subject), (str(error), error.kind, error.op, error.subject))

    def test_wrong_arguments_are_told_before_they_are_sent(self):
        self.fails("invalid_argument", self.pyro.write_workspace_file, "ws-1", "a", text="\udcff")
        self.fails("invalid_argument", self.pyro.write_workspace_file, "ws-1", "a", text="x" * (35 << 20))
        self.fails("invalid_argument", self.pyro.read_shell, "ws-1", "s", cursor=float("nan"))
        with self.assertRaises(TypeError):
            self.pyro.write_workspace_file("ws-1", "a", text=object())
        self.pyro.list_workspaces()

    def test_host_paths_are_absolute(self):
        said = self.pyro.push_workspace_sync("ws-1", "here")
        self.assertEqual(said["params"]["source_path"], os.path.join(os.getcwd(), "here"))
        said = self.pyro.create_workspace(environment="e", secrets=[{"name": "A", "file_path": self.folder / "a"}, {"name": "B", "value": "b"}])
        self.assertEqual(said["params"]["secrets"], [{"name": "A", "file_path": str(self.folder / "a")}, {"name": "B", "value": "b"}])
        self.assertNotIn("seed_path", said["params"])

    def test_commands(self):
        self.assertEqual(self.pyro.run_in_vm(environment="e", command="a b")["params"]["command"], "a b")
        self.assertEqual(self.pyro.run_in_vm(environment="e", command=("a", "b"))["params"]["argv"], ["a", "b"])
        self.assertFalse({"command", "argv"} & self.pyro.run_in_vm(environment="e", command=None)["params"].keys())

    def test_no_program(self):
        self.setenv("PYRO_PROGRAM", None)
        self.setenv("PATH", str(self.folder / "nowhere"))
        error = self.fails("unavailable", Pyro().list_workspaces)
        self.assertIn("PYRO_PROGRAM", error.hint)
        error = self.fails("unavailable", Pyro(program="/no/such/pyro").list_workspaces)
        self.assertIn("/no/such/pyro", error.message)
        broken = self.folder / "broken"
        broken.write_text("#!/no/such/interpreter\n")
        broken.chmod(0o755)
        self.fails("unavailable", Pyro(program=broken).list_workspaces)
        self.setenv("PATH", str(self.folder))
        with Pyro() as pyro:
            self.setenv("PYRO_PROGRAM", str(self.program))
            pyro.list_workspaces()

    def test_a_child_that_dies(self):
        for how in ("die", "killed", "garbage", "half", "null", "both", "odd", "deep"):
            with self.subTest(how), ThreadPoolExecutor(4) as threads:
                before = self.pyro.list_workspaces()["pid"]
                waiting = [threads.submit(self.pyro.status_workspace, "deaf") for _ in range(3)]
                error = self.fails("unavailable", self.pyro.status_workspace, how)
                self.assertTrue(error.hint)
                for call in waiting:
                    self.fails("unavailable", call.result, PATIENCE)
                self.assertFalse(alive(before))
                self.assertNotEqual(self.pyro.list_workspaces()["pid"], before)

    def test_many_threads(self):
        with ThreadPoolExecutor(32) as threads:
            began = time.monotonic()
            said = list(threads.map(lambda i: self.pyro.write_workspace_file("slow", str(i), text="x" * 10000), range(96)))
            took = time.monotonic() - began
        self.assertEqual([s["said"]["path"] for s in said], [str(i) for i in range(96)])
        self.assertLess(took, 96 * 0.1 / 2, "the calls waited for each other")

    def test_callbacks(self):
        out, errs, steps = [], [], []
        result = self.pyro.exec_workspace("prints", command="x", on_stdout=out.append, on_stderr=errs.append)
        self.assertEqual((out, errs, result), (["ü\n"], ["\ufffd\0"], {"stream": True}))
        self.pyro.start_workspace("prints", on_progress=steps.append)
        self.assertEqual(steps, [{"phase": "pulling", "subject": "debian:12", "done": 1, "total": 2}])
        self.assertEqual(self.pyro.exec_workspace("prints", command="x"), {"stream": False})

    def test_what_was_dealt_with_is_told(self):
        self.assertEqual(self.pyro.exec_workspace("flood", command="x", on_stdout=lambda _: None), {"consumed": 500})

    def test_a_callback_may_call(self):
        inner = []
        self.pyro.exec_workspace("flood", command="x", on_stdout=lambda _: inner.append(self.pyro.list_workspaces()["method"]))
        self.assertEqual(inner, ["list_workspaces"] * 50)

    def test_a_callback_that_raises_cancels(self):
        def fail(_):
            raise LookupError("enough")

        with self.assertRaises(LookupError):
            self.pyro.exec_workspace("flood", command="x", on_stdout=fail)
        self.pyro.list_workspaces()

    def got(self, method):
        """Wait until the child has a call, and the caller waits for its end."""
        eventually(lambda: f"got {method}" in self.notes())
        time.sleep(0.2)

    def test_interrupt_cancels(self):
        def interrupt():
            try:
                self.got("exec_workspace")
            finally:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        pid = self.pyro.list_workspaces()["pid"]
        threading.Thread(target=interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            self.pyro.exec_workspace("wait", command="x")
        eventually(lambda: "cancelled exec_workspace" in self.notes())
        self.assertEqual(self.pyro.list_workspaces()["pid"], pid, "the child was restarted")

    def test_close_cancels_what_is_under_way(self):
        with ThreadPoolExecutor(1) as threads:
            self.pyro.list_workspaces()
            call = threads.submit(self.pyro.exec_workspace, "wait", command="x")
            self.got("exec_workspace")
            self.pyro.close()
            self.fails("canceled", call.result, PATIENCE)
        self.assertIn("cancelled exec_workspace", self.notes())

    def test_close_fails_what_is_under_way(self):
        with ThreadPoolExecutor(1) as threads:
            pid = self.pyro.list_workspaces()["pid"]
            call = threads.submit(self.pyro.status_workspace, "deaf")
            self.got("status_workspace")
            self.pyro.close()
            self.fails("unavailable", call.result, PATIENCE)
        self.assertFalse(alive(pid))

    def test_fork(self):
        pid = self.pyro.list_workspaces()["pid"]
        child = os.fork()
        if child == 0:
            try:  # the forked process starts its own child, and must not use the parent's
                other = self.pyro.list_workspaces()["pid"]
                self.pyro.close()
                os._exit(0 if other != pid and not alive(other) and alive(pid) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.pyro.list_workspaces()["pid"], pid)

    def test_a_forked_process_does_not_keep_the_child(self):
        self.pyro.list_workspaces()
        sleeper = os.fork()
        if sleeper == 0:
            time.sleep(1000)
            os._exit(0)
        try:
            self.pyro.close()
            self.assertEqual(self.notes()[-1], "ended")
        finally:
            os.kill(sleeper, signal.SIGKILL)
            os.waitpid(sleeper, 0)

    def test_no_child_is_left_however_python_ends(self):
        for end in ("pass", "os._exit(0)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "raise SystemExit(1)", "1 / 0"):
            script = f"""
import os, threading
from pyro_mcp import Pyro
pyro = Pyro()
print(pyro.list_workspaces()["pid"], flush=True)
threading.Thread(target=lambda: pyro.status_workspace("deaf"), daemon=True).start()
{end}
"""
            with self.subTest(end):
                out = subprocess.run([sys.executable, "-c", script], env=self.script_env(), capture_output=True, timeout=PATIENCE)
                self.assertTrue(out.stdout, out.stderr)
                eventually(lambda pid=int(out.stdout): not alive(pid), "the child is still running")
