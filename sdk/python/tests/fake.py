"""A fake pyro for tests, which can misbehave: `fake.py rpc` and `fake.py mcp serve …`.

The workspace_id in a call of `fake.py rpc` selects how the fake behaves.
"""

import json
import os
import signal
import sys
import threading
import time

lock = threading.Lock()
cancelled = {}
consumed = {}


def say(**message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def output(id, data, stream="stdout", encoding="utf-8"):
    say(method="output", params={"id": id, "stream": stream, "data": data, "encoding": encoding})


def serve(id, method, params):
    what = params.get("workspace_id", "")
    if what == "die":
        os._exit(3)
    elif what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "garbage":
        sys.stdout.write("panic: this is not a response\n")
        sys.stdout.flush()
    elif what == "both":
        say(id=id, result={}, error={})
    elif what == "odd":
        say(id=id, error="not an object")
    elif what == "deep":
        sys.stdout.write("[" * 1_000_000 + "\n")
        sys.stdout.flush()
    elif what == "half":
        sys.stdout.write('{"jsonrpc": "2.0", "id"')
        sys.stdout.flush()
        os._exit(0)
    elif what == "null":
        say(id=None, error={"code": -32600, "message": "the request is too long"})
    elif what == "wait":
        note(f"got {method}")
        cancelled[id].wait()
        say(id=id, error={"code": -32000, "message": "the client cancelled the call", "data": {"kind": "canceled"}})
        note(f"cancelled {method}")
    elif what == "deaf":
        note(f"got {method}")
        time.sleep(1000)
    elif what == "error":
        data = {"kind": "not_found", "op": "find workspace", "subject": "ws-1", "hint": "pyro workspace list"}
        say(id=id, error={"code": -32000, "message": "no such workspace", "data": data})
    elif what == "prints":
        output(id, "ü\n")
        output(id, "/wA=", stream="stderr", encoding="base64")
        say(method="progress", params={"id": id, "phase": "pulling", "subject": "debian:12", "done": 1, "total": 2})
        say(id=id, result={"stream": params.get("stream", False)})
    elif what == "flood":
        for i in range(50):
            output(id, "0123456789")
        while consumed.get(id, 0) < 500 and not cancelled[id].is_set():
            time.sleep(0.01)
        say(id=id, result={"consumed": consumed.get(id, 0)})
    elif what == "slow":
        time.sleep(0.1)
        say(id=id, result={"said": params})
    else:
        say(id=id, result={"method": method, "params": params, "pid": os.getpid(), "state": os.environ.get("PYRO_STATE_DIR")})


def note(text):
    with open(os.environ["FAKE_NOTES"], "a") as notes:
        notes.write(text + "\n")


def rpc():
    note(f"started {os.getpid()}")
    calls = []
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params", {})
        if message["method"] == "cancel":
            cancelled[params["id"]].set()
        elif message["method"] == "consumed":
            consumed[params["id"]] = consumed.get(params["id"], 0) + params["bytes"]
        else:
            cancelled[message["id"]] = threading.Event()
            calls.append(threading.Thread(target=serve, args=(message["id"], message["method"], params), daemon=True))
            calls[-1].start()
    for call in calls:
        call.join(1)
    note("ended")
    os._exit(0)


def mcp():
    token = os.environ.get("PYRO_MCP_TOKEN", "")
    if "http" in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: (note("terminated"), os._exit(0)))
        signal.signal(signal.SIGHUP, lambda *_: (note("hung up"), os._exit(0)))
        note(f"serving {os.getpid()} {' '.join(sys.argv[1:])} {token}")
        while True:
            time.sleep(10)
    if "vm-run" in sys.argv:
        sys.exit(9)
    for line in sys.stdin:
        print("served", line.strip(), flush=True)


{"rpc": rpc, "mcp": mcp}[sys.argv[1]]()
