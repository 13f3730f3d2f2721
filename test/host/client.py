"""Calls every method of a host agent, with a client that the gRPC tools generate.

Usage: client.py PROTO ADDRESS CERTIFICATES REFUSED...

CERTIFICATES is a folder that pyro host certs created. Each REFUSED is a folder with a client
certificate that the host agent must refuse.
"""

import pathlib
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

proto, address, certificates, *others = sys.argv[1:]
made = tempfile.TemporaryDirectory()
# Debian's protoc does not support "optional" in proto3. The wire format is the same without it.
text = pathlib.Path(proto).read_text().replace("\n  optional ", "\n  ")
pathlib.Path(made.name, "hostagent.proto").write_text(text)
if protoc.main(["protoc", "-I" + made.name, "--python_out=" + made.name, "--grpc_python_out=" + made.name, "hostagent.proto"]):
    sys.exit("can't compile the proto file")
sys.path.insert(0, made.name)
import hostagent_pb2 as pb  # noqa: E402
import hostagent_pb2_grpc as rpc  # noqa: E402


def client(folder):
    ca = pathlib.Path(certificates, "ca.pem").read_bytes()
    key, cert = (pathlib.Path(folder, name).read_bytes() for name in ("client-key.pem", "client.pem")) if folder else (None, None)
    return rpc.HostAgentServiceStub(grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert)))


stub = client(certificates)
called = set()
TEAM, TEMPLATE = "6f1f3c9a-0c41-4b52-9d9e-0e6c0f5e7a01", "6f1f3c9a-0c41-4b52-9d9e-0e6c0f5e7a02"
ZEROS = "00000000-0000-0000-0000-000000000000"


def call(method, request, timeout=240):
    called.add(method)
    return getattr(stub, method)(request, timeout=timeout)


def refused(code, method, request, why=""):
    try:
        answer = call(method, request)
        if hasattr(answer, "__iter__"):
            list(answer)
    except grpc.RpcError as e:
        assert e.code() == code and why in e.details(), (method, e)
        return
    raise AssertionError(f"{method} did not fail: {request}")


def run(sandbox, *argv, **more):
    return call("Exec", pb.ExecRequest(sandbox_id=sandbox, cmd=argv[0], args=argv[1:], **more))


def chunks(sandbox, path, content):
    yield pb.WriteFileStreamRequest(meta=pb.WriteFileStreamMeta(sandbox_id=sandbox, path=path))
    for at in range(0, len(content), 60_000):
        yield pb.WriteFileStreamRequest(chunk=content[at : at + 60_000])


def strangers():
    for folder in [None, *others]:
        try:
            client(folder).ListSandboxes(pb.ListSandboxesRequest(), timeout=60)
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.UNAVAILABLE, e
        else:
            raise AssertionError(f"the host agent accepted the certificate of {folder}")


def creation():
    wanted = dict(
        team_id=ZEROS, template_id=ZEROS, vcpus=2, memory_mb=640, disk_size_mb=1000, timeout_sec=3600, default_user="daemon", default_env={"WHO": "default", "OF": "default"}
    )
    too_much = {"vcpus": "7 processors: the limit is 6", "memory_mb": "2001 MB of memory: the limit is 2000", "disk_size_mb": "8001 MB of disk: the limit is 8000"}
    for field, value in {"vcpus": 7, "memory_mb": 2001, "disk_size_mb": 8001}.items():
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "CreateSandbox", pb.CreateSandboxRequest(**{**wanted, field: value}), too_much[field])
    refused(grpc.StatusCode.INVALID_ARGUMENT, "CreateSandbox", pb.CreateSandboxRequest(**{**wanted, "disk_size_mb": 16385}))
    answer = call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="py", **wanted))
    assert (answer.sandbox_id, answer.status, answer.host_ip) == ("py", "running", ""), answer
    metadata = dict(answer.metadata)
    assert sorted(metadata) == ["environment", "isolation", "workspace_id"] and metadata["environment"] == "debian:12", metadata
    assert metadata["isolation"] in ("kvm", "gvisor", "tcg") and metadata["workspace_id"].startswith("ws-"), metadata
    for field, value in {"vcpus": 5, "memory_mb": 1361, "disk_size_mb": 7001}.items():  # too much together with the existing sandbox
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "CreateSandbox", pb.CreateSandboxRequest(**{**wanted, field: value}), too_much[field])
    (listed,) = call("ListSandboxes", pb.ListSandboxesRequest()).sandboxes
    assert (listed.sandbox_id, listed.status, listed.template, listed.vcpus, listed.memory_mb, listed.timeout_sec) == ("py", "running", "minimal", 2, 640, 3600), listed
    assert (listed.team_id, listed.template_id, listed.host_ip, dict(listed.metadata)) == (ZEROS, ZEROS, "", metadata), listed
    assert abs(listed.created_at_unix - time.time()) < 600 and listed.last_active_at_unix >= listed.created_at_unix, listed
    processors, memory = run("py", "sh", "-c", "nproc; grep MemTotal /proc/meminfo").stdout.decode().splitlines()
    assert processors == "2" and 512 < int(memory.split()[1]) / 1024 <= 640, (processors, memory)
    call("PingSandbox", pb.PingSandboxRequest(sandbox_id="py"))
    return metadata


def described(e):
    return e.name, e.path, e.type, e.mode, e.permissions, e.owner, e.group, e.symlink_target


def files():
    call("WriteFile", pb.WriteFileRequest(sandbox_id="py", path="/srv/a/f", content=b"small"))
    assert call("ReadFile", pb.ReadFileRequest(sandbox_id="py", path="/srv/a/f")).content == b"small"
    large = bytes(range(256)) * 4096
    call("WriteFileStream", chunks("py", "/srv/large", large))
    assert b"".join(m.chunk for m in call("ReadFileStream", pb.ReadFileStreamRequest(sandbox_id="py", path="/srv/large"))) == large
    folder = call("MakeDir", pb.MakeDirRequest(sandbox_id="py", path="/srv/d")).entry
    assert described(folder) == ("d", "/srv/d", "directory", 0o755, "drwxr-xr-x", "root", "root", "") and abs(folder.modified_at - time.time()) < 600, folder
    prepared = run("py", "sh", "-c", "chown 1:2 a/f && chmod 4750 a/f && touch -d @1234 a/f && ln -s a/f link && chown 4321:4322 d", user="root", cwd="/srv")
    assert prepared.exit_code == 0, prepared
    seen = {e.path: e for e in call("ListDir", pb.ListDirRequest(sandbox_id="py", path="/srv", depth=2)).entries}
    assert sorted(seen) == ["/srv/a", "/srv/a/f", "/srv/d", "/srv/large", "/srv/link"], seen
    assert sorted(e.path for e in call("ListDir", pb.ListDirRequest(sandbox_id="py", path="/srv")).entries) == ["/srv/a", "/srv/d", "/srv/large", "/srv/link"]
    assert described(seen["/srv/a/f"]) == ("f", "/srv/a/f", "file", 0o4750, "-rwsr-x---", "daemon", "bin", ""), seen
    assert (seen["/srv/a/f"].size, seen["/srv/a/f"].modified_at, seen["/srv/large"].size) == (5, 1234, len(large)), seen
    assert described(seen["/srv/link"]) == ("link", "/srv/link", "symlink", 0o777, "lrwxrwxrwx", "root", "root", "a/f"), seen
    assert (seen["/srv/d"].owner, seen["/srv/d"].group) == ("4321", "4322"), seen
    call("RemovePath", pb.RemovePathRequest(sandbox_id="py", path="/srv/d"))
    refused(grpc.StatusCode.INVALID_ARGUMENT, "ReadFile", pb.ReadFileRequest(sandbox_id="py", path="srv/f"))
    refused(grpc.StatusCode.NOT_FOUND, "ReadFileStream", pb.ReadFileStreamRequest(sandbox_id="py", path="/srv/d"))


# A program that prints its user, its working directory, and two variables. The first result is with
# the defaults of the sandbox, the second with the settings of the call.
TELL = dict(cmd="sh", args=["-c", "echo $(id -un) $(pwd) $WHO $OF"])
OWN = dict(envs={"WHO": "own"}, cwd="/srv", user="games")
TOLD = [({}, b"daemon /usr/sbin default default"), (OWN, b"games /srv own default")]


def printed(events):
    events = list(events)
    return b"".join(e.data.stdout for e in events), b"".join(e.data.stderr for e in events)


def programs():
    ended = run("py", "sh", "-c", "echo out; echo wrong >&2; exit 7")
    assert (ended.stdout, ended.stderr, ended.exit_code) == (b"out\n", b"wrong\n", 7), ended
    never = run("py", "no-such-program")
    assert never.exit_code == 127 and never.stderr, never
    refused(grpc.StatusCode.DEADLINE_EXCEEDED, "Exec", pb.ExecRequest(sandbox_id="py", cmd="sleep", args=["1000"], timeout_sec=1))
    events = list(call("ExecStream", pb.ExecStreamRequest(sandbox_id="py", cmd="sh", args=["-c", "echo $$; echo two >&2; exit 3"])))
    assert events[0].start.pid > 0 and events[-1].end.exit_code == 3, events
    assert printed(events) == (b"%d\n" % events[0].start.pid, b"two\n"), events
    for own, told in TOLD:
        assert call("Exec", pb.ExecRequest(sandbox_id="py", **TELL, **own)).stdout == told + b"\n"
        assert printed(call("ExecStream", pb.ExecStreamRequest(sandbox_id="py", **TELL, **own))) == (told + b"\n", b"")
        attached = list(call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", **TELL, **own)))
        assert b"".join(e.output.data for e in attached) == told + b"\r\n" and attached[0].started.tag.startswith("pty-"), attached
        started = call("StartBackground", pb.StartBackgroundRequest(sandbox_id="py", **TELL, **own))
        assert printed(call("ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", tag=started.tag))) == (told + b"\n", b""), started


def until(events, stdout, stderr):
    """Reads events until both outputs have the expected size."""
    out = wrong = b""
    while len(out) < len(stdout) or len(wrong) < len(stderr):
        event = next(events)
        out, wrong = out + event.data.stdout, wrong + event.data.stderr
    assert (out, wrong) == (stdout, stderr), (out, wrong)


def background():
    script = "trap 'echo told >/tmp/term; echo term; exit 5' TERM; trap 'echo usr1 >&2' USR1; echo said; echo wrong >&2; while :; do sleep 1000 & wait; done"
    started = call("StartBackground", pb.StartBackgroundRequest(sandbox_id="py", tag="back", cmd="sh", args=["-c", script]))
    (listed,) = call("ListProcesses", pb.ListProcessesRequest(sandbox_id="py")).processes
    assert (listed.pid, listed.tag, listed.cmd, list(listed.args)) == (started.pid, "back", "sh", ["-c", script]), listed
    watched = call("ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", pid=started.pid))
    assert next(watched).start.pid == started.pid
    until(watched, b"said\n", b"wrong\n")
    call("KillProcess", pb.KillProcessRequest(sandbox_id="py", tag="back", signal="SIGUSR1"))
    until(watched, b"", b"usr1\n")
    call("KillProcess", pb.KillProcessRequest(sandbox_id="py", pid=started.pid, signal="SIGTERM"))
    events = list(watched)
    assert printed(events) == (b"term\n", b"") and events[-1].end.exit_code == 5, events
    assert run("py", "cat", "/tmp/term").stdout == b"told\n"
    events = list(call("ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", tag="back", stdout_offset=2, stderr_offset=8)))
    assert printed(events) == (b"id\nterm\n", b"r1\n"), events
    assert [e.data.offset for e in events if e.data.stdout][0] == 2 and [e.data.offset for e in events if e.data.stderr][0] == 8, events
    refused(grpc.StatusCode.NOT_FOUND, "ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", pid=started.pid))
    started = call("StartBackground", pb.StartBackgroundRequest(sandbox_id="py", cmd="sleep", args=["1000"]))
    call("KillProcess", pb.KillProcessRequest(sandbox_id="py", pid=started.pid))
    assert list(call("ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", tag=started.tag)))[-1].end.exit_code == 137
    assert not call("ListProcesses", pb.ListProcessesRequest(sandbox_id="py")).processes


def terminals(metadata):
    attached = call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", tag="term", cmd="sh", cols=90, rows=30))
    assert next(attached).started.tag == "term"
    call("PtyResize", pb.PtyResizeRequest(sandbox_id="py", tag="term", cols=91, rows=31))
    call("PtySendInput", pb.PtySendInputRequest(sandbox_id="py", tag="term", data=b"stty size; X=kept\n"))
    seen = b""
    for event in attached:
        seen += event.output.data
        if b"31 91" in seen:
            break
    attached.cancel()
    call("PauseSandbox", pb.PauseSandboxRequest(sandbox_id="py"))
    refused(grpc.StatusCode.FAILED_PRECONDITION, "Exec", pb.ExecRequest(sandbox_id="py", cmd="true"))
    assert [s.status for s in call("ListSandboxes", pb.ListSandboxesRequest()).sandboxes] == ["paused"]
    resumed = call("ResumeSandbox", pb.ResumeSandboxRequest(sandbox_id="py", timeout_sec=1800, default_user="games", default_env={"WHO": "later"}))
    assert (resumed.sandbox_id, resumed.status, dict(resumed.metadata)) == ("py", "running", metadata), resumed
    assert [s.timeout_sec for s in call("ListSandboxes", pb.ListSandboxesRequest()).sandboxes] == [1800]
    assert call("Exec", pb.ExecRequest(sandbox_id="py", **TELL, cwd="/srv")).stdout == b"games /srv later\n"
    call("PtySendInput", pb.PtySendInputRequest(sandbox_id="py", tag="term", data=b"echo $X; exit 4\n"))
    events = list(call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", tag="term", offset=len(seen))))
    assert b"kept" in b"".join(e.output.data for e in events) and events[-1].exited.exit_code == 4, events
    running = call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", tag="term", cmd="sleep", args=["1000"]))
    assert next(running).started.pid > 0
    call("PtyKill", pb.PtyKillRequest(sandbox_id="py", tag="term"))
    assert list(running)[-1].exited.exit_code == 137


def metrics():
    seen = {}
    while not seen.get("10m"):
        seen = {r: list(call("GetSandboxMetrics", pb.GetSandboxMetricsRequest(sandbox_id="py", range=r)).points) for r in ("10m", "2h", "24h")}
        time.sleep(0.1)  # the first sample comes within a second
    for point in sum(seen.values(), []):
        assert abs(point.timestamp_unix - time.time()) < 600 and 0 <= point.cpu_pct <= 100 and 0 < point.mem_bytes < 640 << 20 and point.disk_bytes > 0, seen
    refused(grpc.StatusCode.INVALID_ARGUMENT, "GetSandboxMetrics", pb.GetSandboxMetricsRequest(sandbox_id="py", range="1h"))
    flushed = call("FlushSandboxMetrics", pb.FlushSandboxMetricsRequest(sandbox_id="py"))
    for points, had in (flushed.points_10m, seen["10m"]), (flushed.points_2h, seen["2h"]), (flushed.points_24h, seen["24h"]):
        assert list(points)[: len(had)] == had, (flushed, seen)


def templates():
    refused(grpc.StatusCode.INVALID_ARGUMENT, "CreateSnapshot", pb.CreateSnapshotRequest(sandbox_id="py", team_id=ZEROS, template_id=ZEROS))
    assert call("CreateSnapshot", pb.CreateSnapshotRequest(sandbox_id="py", name="kept", team_id=TEAM, template_id=TEMPLATE)).size_bytes > 0
    refused(grpc.StatusCode.NOT_FOUND, "PingSandbox", pb.PingSandboxRequest(sandbox_id="py"))
    call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="again", team_id=TEAM, template_id=TEMPLATE))
    (listed,) = call("ListSandboxes", pb.ListSandboxesRequest()).sandboxes
    assert (listed.team_id, listed.template_id, listed.vcpus, listed.memory_mb) == (TEAM, TEMPLATE, 2, 640), listed
    assert call("Exec", pb.ExecRequest(sandbox_id="again", **TELL, cwd="/srv")).stdout == b"games /srv later\n"  # from the template
    assert run("again", "cat", "/srv/a/f", user="root").stdout == b"small"
    refused(grpc.StatusCode.FAILED_PRECONDITION, "DeleteSnapshot", pb.DeleteSnapshotRequest(team_id=TEAM, template_id=TEMPLATE))
    assert call("FlattenRootfs", pb.FlattenRootfsRequest(sandbox_id="again", name="flat")).size_bytes > 0
    call("DeleteSnapshot", pb.DeleteSnapshotRequest(team_id=TEAM, template_id=TEMPLATE))
    call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="flat", template="flat", vcpus=1, default_user="root", default_env={"OF": "flat"}))
    flat = run("flat", "sh", "-c", "cat /srv/a/f; echo; id -un; echo $WHO $OF; nproc")
    assert flat.stdout == b"small\nroot\nlater flat\n1\n", flat
    call("DestroySandbox", pb.DestroySandboxRequest(sandbox_id="flat"))
    call("DestroySandbox", pb.DestroySandboxRequest(sandbox_id="flat"))
    call("DeleteSnapshot", pb.DeleteSnapshotRequest(name="flat"))


strangers()
metadata = creation()
files()
programs()
background()
terminals(metadata)
metrics()
templates()
call("Terminate", pb.TerminateRequest())
missing = {m.name for m in pb.DESCRIPTOR.services_by_name["HostAgentService"].methods} - called
assert not missing, missing
print("all", len(called), "methods were called")
