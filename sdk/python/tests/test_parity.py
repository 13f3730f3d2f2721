"""Checks that the public methods match the contract and the methods of `pyro rpc`."""

import inspect
import pathlib
import re
import unittest

from pyro_mcp import Pyro, create_server

GOLDEN = pathlib.Path(__file__).parents[3] / "internal" / "operations" / "testdata" / "rpc.golden"

# The signatures from the contract. Other parameters are keyword-only and optional.
CONTRACT = """
create_server(profile="workspace-full")
list_environments()
pull_environment(environment)
inspect_environment(environment)
prune_environments()
list_workspaces()
push_workspace_sync(workspace_id, source_path, *, dest="/workspace")
stop_workspace(workspace_id)
start_workspace(workspace_id)
list_workspace_files(workspace_id, path="/workspace", recursive=False)
read_workspace_file(workspace_id, path, *, max_bytes=65536)
write_workspace_file(workspace_id, path, *, text)
export_workspace(workspace_id, path, *, output_path)
apply_workspace_patch(workspace_id, *, patch)
export_workspace_disk(workspace_id, *, output_path)
list_workspace_disk(workspace_id, path="/workspace", recursive=False)
read_workspace_disk(workspace_id, path, *, max_bytes=65536)
diff_workspace(workspace_id)
create_snapshot(workspace_id, snapshot_name)
list_snapshots(workspace_id)
delete_snapshot(workspace_id, snapshot_name)
reset_workspace(workspace_id, *, snapshot="baseline")
start_service(workspace_id, service_name, *, command, cwd="/workspace", readiness=None, ready_timeout_seconds=30, ready_interval_ms=500, secret_env=None, published_ports=None)
list_services(workspace_id)
status_service(workspace_id, service_name)
logs_service(workspace_id, service_name, *, tail_lines=200, all=False)
stop_service(workspace_id, service_name)
open_shell(workspace_id, *, cwd="/workspace", cols=120, rows=30, secret_env=None)
read_shell(workspace_id, shell_id, *, cursor=0, max_chars=65536, plain=False, wait_for_idle_ms=None)
write_shell(workspace_id, shell_id, *, input, append_newline=True)
signal_shell(workspace_id, shell_id, *, signal_name="INT")
close_shell(workspace_id, shell_id)
start_vm(vm_id)
exec_vm(vm_id, *, command, timeout_seconds=30)
exec_workspace(workspace_id, *, command, timeout_seconds=30, secret_env=None)
stop_vm(vm_id)
delete_vm(vm_id)
delete_workspace(workspace_id)
status_vm(vm_id)
status_workspace(workspace_id)
update_workspace(workspace_id, *, name=None, clear_name=False, labels=None, clear_labels=None)
logs_workspace(workspace_id)
network_info_vm(vm_id)
reap_expired()
create_vm(*, environment, vcpu_count=1, mem_mib=1024, ttl_seconds=600, network=False, allow_host_compat=False)
run_in_vm(*, environment, command, vcpu_count=1, mem_mib=1024, timeout_seconds=30, ttl_seconds=600, network=False, allow_host_compat=False)
create_workspace(*, environment, vcpu_count=1, mem_mib=1024, ttl_seconds=600, allow_host_compat=False, seed_path=None, name=None, labels=None, network_policy="off", secrets=None)
"""

# The signatures of methods that are not in the contract.
BEYOND = """
copy_to_workspace(workspace_id, source_path, dest, *, keep_owners=False, uid=0, gid=0, follow_link=False)
copy_from_workspace(workspace_id, path, output_path)
pull_workspace_sync(workspace_id, host_path=None, *, resolve=None, dry_run=False, include_ignored=False, git=False)
publish_service(workspace_id, service_name, *, published_ports)
unpublish_service(workspace_id, service_name, *, guest_ports)
doctor()
host_network_settings()
build_environment(name, context_path, *, dockerfile=None, target=None, build_args=None, secrets=None, no_cache=False)
commit_workspace(workspace_id, name, *, omit_workspace=False)
push_environment(environment, *, target=None)
save_environment(environment, *, output_path)
load_environment(path, *, name=None)
prepare_environment(environment="debian:12", *, network=False, force=False)
summarize_workspace(workspace_id)
stats_workspaces(workspace_ids=None)
resize_shell(workspace_id, shell_id, *, cols, rows)
list_shells(workspace_id)
pause_workspace(workspace_id)
resume_workspace(workspace_id)
start_command(workspace_id, *, command, timeout_seconds=None)
list_commands(workspace_id)
read_command(workspace_id, sequence, *, cursor=None, max_chars=65536, wait_seconds=None)
wait_command(workspace_id, sequence, *, timeout_seconds=None)
kill_command(workspace_id, sequence, *, signal_name="KILL")
fork_workspace(workspace_id, *, snapshot=None, live=False, count=1, name=None, labels=None)
network_log_workspace(workspace_id, *, tail_lines=200, all=False)
"""

LISTENERS = {"progress": {"on_progress"}, "output": {"on_stdout", "on_stderr"}}


def promised(text):
    """Yield the name and the parameters of each signature in a text."""
    for line in text.strip().splitlines():
        name, arguments = re.fullmatch(r"(\w+)\((.*)\)", line).groups()
        scope = {}
        exec(f"def {name}({arguments}): pass", scope)
        yield name, list(inspect.signature(scope[name]).parameters.values())


def methods():
    """Yield the name and the parameters of each public method, without self."""
    for name, method in inspect.getmembers(Pyro, inspect.isfunction):
        if not name.startswith("_") and name != "close":
            yield name, list(inspect.signature(method).parameters.values())[1:]


def golden():
    """Return the notifications and parameters of each method of `pyro rpc`, by method name."""
    table = {}
    for line in GOLDEN.read_text().splitlines():
        words = line.split()
        if line.startswith("  "):
            table[name][1].add(words[0])
        else:
            name, notes = words[0], words[1:]
            table[name] = (notes, set())
    return table


def plain(parameter):
    """Return a parameter without its type."""
    return parameter.replace(annotation=inspect.Parameter.empty)


class Parity(unittest.TestCase):
    def test_signatures(self):
        have = {name: [plain(p) for p in parameters] for name, parameters in methods()}
        want = dict([*promised(CONTRACT), *promised(BEYOND)])
        self.assertEqual(sorted(have), sorted(want))
        for name, parameters in want.items():
            with self.subTest(name):
                said = [p.name for p in parameters]
                self.assertEqual([p for p in have[name] if p.name in said], parameters)
                for extra in (p for p in have[name] if p.name not in said):
                    self.assertEqual((extra.kind, bool(extra.default)), (inspect.Parameter.KEYWORD_ONLY, False), extra)

    def test_the_factory(self):
        self.assertEqual(str(inspect.signature(create_server).replace(return_annotation=inspect.Signature.empty)), "(profile: 'str' = 'workspace-full')")

    def test_methods_of_rpc(self):
        table, have = golden(), dict(methods())
        del have["create_server"]
        self.assertEqual(sorted(have), sorted(table))
        for name, (notes, fields) in table.items():
            with self.subTest(name):
                if "command" in fields:
                    fields -= {"argv"}  # the parameter command also accepts a list
                listeners = set().union(*(LISTENERS[note] for note in notes))
                self.assertEqual({p.name for p in have[name]}, fields | listeners)

    def test_all_is_typed_and_told(self):
        for name, parameters in methods():
            with self.subTest(name):
                self.assertTrue(getattr(Pyro, name).__doc__)
                for p in parameters:
                    self.assertIsNot(p.annotation, inspect.Parameter.empty, p)
