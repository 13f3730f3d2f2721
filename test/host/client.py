"""Calls every method of a host agent with the client that gRPC's own tools make of its proto: client.py PROTO ADDRESS TOKEN."""

import pathlib
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

proto, address, token = sys.argv[1:]
made = tempfile.TemporaryDirectory()
# Debian's compiler is older than "optional" in proto3, without which what is sent is the same.
text = pathlib.Path(proto).read_text().replace("\n  optional ", "\n  ")
pathlib.Path(made.name, "hostagent.proto").write_text(text)
if protoc.main(["protoc", "-I" + made.name, "--python_out=" + made.name, "--grpc_python_out=" + made.name, "hostagent.proto"]):
    sys.exit("the proto can't be compiled")
sys.path.insert(0, made.name)
import hostagent_pb2 as pb  # noqa: E402
import hostagent_pb2_grpc as rpc  # noqa: E402

channel = grpc.insecure_channel(address)
stub = rpc.HostAgentServiceStub(channel)
called = set()
TEAM, TEMPLATE = "6f1f3c9a-0c41-4b52-9d9e-0e6c0f5e7a01", "6f1f3c9a-0c41-4b52-9d9e-0e6c0f5e7a02"


def call(method, request, timeout=240):
    called.add(method)
    return getattr(stub, method)(request, timeout=timeout, metadata=[("authorization", "Bearer " + token)])


def refused(code, method, request):
    try:
        answer = call(method, request)
        if hasattr(answer, "__iter__"):
            list(answer)
    except grpc.RpcError as e:
        assert e.code() == code, (method, e)
        return
    raise AssertionError(f"{method} was not refused: {request}")


def run(sandbox, *argv):
    return call("Exec", pb.ExecRequest(sandbox_id=sandbox, cmd=argv[0], args=argv[1:]))


def chunks(sandbox, path, content):
    yield pb.WriteFileStreamRequest(meta=pb.WriteFileStreamMeta(sandbox_id=sandbox, path=path))
    for at in range(0, len(content), 60_000):
        yield pb.WriteFileStreamRequest(chunk=content[at : at + 60_000])


def files():
    call("WriteFile", pb.WriteFileRequest(sandbox_id="py", path="/srv/a/f", content=b"small"))
    assert call("ReadFile", pb.ReadFileRequest(sandbox_id="py", path="/srv/a/f")).content == b"small"
    large = bytes(range(256)) * 4096
    call("WriteFileStream", chunks("py", "/srv/large", large))
    assert b"".join(m.chunk for m in call("ReadFileStream", pb.ReadFileStreamRequest(sandbox_id="py", path="/srv/large"))) == large
    assert call("MakeDir", pb.MakeDirRequest(sandbox_id="py", path="/srv/d")).entry.type == "directory"
    seen = {e.path: e.size for e in call("ListDir", pb.ListDirRequest(sandbox_id="py", path="/srv", depth=2)).entries}
    assert seen["/srv/large"] == len(large) and seen["/srv/a/f"] == 5 and "/srv/d" in seen, seen
    call("RemovePath", pb.RemovePathRequest(sandbox_id="py", path="/srv/d"))
    refused(grpc.StatusCode.INVALID_ARGUMENT, "ReadFile", pb.ReadFileRequest(sandbox_id="py", path="srv/f"))
    refused(grpc.StatusCode.NOT_FOUND, "ReadFileStream", pb.ReadFileStreamRequest(sandbox_id="py", path="/srv/d"))


def programs():
    ended = run("py", "sh", "-c", "echo out; echo wrong >&2; exit 7")
    assert (ended.stdout, ended.stderr, ended.exit_code) == (b"out\n", b"wrong\n", 7), ended
    events = list(call("ExecStream", pb.ExecStreamRequest(sandbox_id="py", cmd="sh", args=["-c", "echo one; echo two >&2; exit 3"])))
    assert events[0].WhichOneof("event") == "start" and events[-1].end.exit_code == 3, events
    assert b"".join(e.data.stdout for e in events) == b"one\n" and b"".join(e.data.stderr for e in events) == b"two\n", events
    started = call("StartBackground", pb.StartBackgroundRequest(sandbox_id="py", tag="back", cmd="sh", args=["-c", "echo said; sleep 1000"]))
    assert [p.pid for p in call("ListProcesses", pb.ListProcessesRequest(sandbox_id="py")).processes if p.tag == "back"] == [started.pid]
    watched = call("ConnectProcess", pb.ConnectProcessRequest(sandbox_id="py", tag="back"))
    said = b""
    for event in watched:
        said += event.data.stdout
        if said == b"said\n":
            break
    call("KillProcess", pb.KillProcessRequest(sandbox_id="py", tag="back"))
    assert list(watched)[-1].end.exit_code == 137


def terminals():
    attached = call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", tag="term", cmd="sh", cols=90, rows=30))
    assert next(attached).started.tag == "term"
    call("PtyResize", pb.PtyResizeRequest(sandbox_id="py", tag="term", cols=91, rows=31))
    call("PtySendInput", pb.PtySendInputRequest(sandbox_id="py", tag="term", data=b"stty size; X=kept\n"))
    printed = b""
    for event in attached:
        printed += event.output.data
        if b"31 91" in printed:
            break
    attached.cancel()
    call("PauseSandbox", pb.PauseSandboxRequest(sandbox_id="py"))
    refused(grpc.StatusCode.FAILED_PRECONDITION, "Exec", pb.ExecRequest(sandbox_id="py", cmd="true"))
    assert [s.status for s in call("ListSandboxes", pb.ListSandboxesRequest()).sandboxes] == ["paused"]
    assert call("ResumeSandbox", pb.ResumeSandboxRequest(sandbox_id="py")).status == "running"
    call("PtySendInput", pb.PtySendInputRequest(sandbox_id="py", tag="term", data=b"echo $X; exit 4\n"))
    events = list(call("PtyAttach", pb.PtyAttachRequest(sandbox_id="py", tag="term", offset=len(printed))))
    assert b"kept" in b"".join(e.output.data for e in events) and events[-1].exited.exit_code == 4, events
    call("PtyKill", pb.PtyKillRequest(sandbox_id="py", tag="term"))


def templates():
    while not call("GetSandboxMetrics", pb.GetSandboxMetricsRequest(sandbox_id="py", range="10m")).points:
        time.sleep(0.1)  # the first is seen within half a second
    call("FlushSandboxMetrics", pb.FlushSandboxMetricsRequest(sandbox_id="py"))
    assert call("CreateSnapshot", pb.CreateSnapshotRequest(sandbox_id="py", name="kept", team_id=TEAM, template_id=TEMPLATE)).size_bytes > 0
    refused(grpc.StatusCode.NOT_FOUND, "PingSandbox", pb.PingSandboxRequest(sandbox_id="py"))
    call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="again", team_id=TEAM, template_id=TEMPLATE))
    assert run("again", "cat", "/srv/a/f").stdout == b"small"
    refused(grpc.StatusCode.FAILED_PRECONDITION, "DeleteSnapshot", pb.DeleteSnapshotRequest(team_id=TEAM, template_id=TEMPLATE))
    assert call("FlattenRootfs", pb.FlattenRootfsRequest(sandbox_id="again", name="flat")).size_bytes > 0
    call("DeleteSnapshot", pb.DeleteSnapshotRequest(team_id=TEAM, template_id=TEMPLATE))
    call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="flat", template="flat"))
    assert run("flat", "cat", "/srv/a/f").stdout == b"small"
    call("DestroySandbox", pb.DestroySandboxRequest(sandbox_id="flat"))
    call("DestroySandbox", pb.DestroySandboxRequest(sandbox_id="flat"))


assert call("CreateSandbox", pb.CreateSandboxRequest(sandbox_id="py")).status == "running"
call("PingSandbox", pb.PingSandboxRequest(sandbox_id="py"))
files()
programs()
terminals()
templates()
call("Terminate", pb.TerminateRequest())
missing = {m.name for m in pb.DESCRIPTOR.services_by_name["HostAgentService"].methods} - called
assert not missing, missing
print("all", len(called), "methods were called")
