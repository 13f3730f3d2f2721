package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
)

// shells compares the work of shells and services with the same work inside the machine.
func (w *workspaces) shells() error {
	for _, k := range w.kinds {
		id, err := w.create(k, "")
		if err != nil {
			return err
		}
		for _, measure := range []func(kind, string) error{w.echoed, w.printed, w.ready} {
			if err := measure(k, id); err != nil {
				return err
			}
		}
		if err := w.delete(id); err != nil {
			return err
		}
	}
	return nil
}

// bare is a program that does the same work on a bare PTY inside the machine. It prints the time of
// each echo in ms, or the throughput in bytes per second.
const bare = `import json, os, pty, sys, time, tty
n = int(sys.argv[2])
pid, fd = pty.fork()
if pid == 0:
    tty.setraw(0) if sys.argv[1] == "output" else None
    os.execvp("sh", ["sh", "-c", "echo ready; exec " + ("cat >/dev/null" if sys.argv[1] == "echo" else "head -c %d /dev/zero" % n)])
seen = b""
while b"ready" not in seen or not seen.endswith(b"\n"): seen += os.read(fd, 65536)
if sys.argv[1] == "echo":
    took = []
    for i in range(n):
        began = time.perf_counter()
        os.write(fd, b"x")
        while os.read(fd, 1) != b"x": pass
        took.append((time.perf_counter() - began) * 1000)
    print(json.dumps(took))
else:
    began, left = time.perf_counter(), n
    while left > 0: left -= len(os.read(fd, 65536))
    print(json.dumps([n / (time.perf_counter() - began) / 1e6]))
os.kill(pid, 9)`

func (w *workspaces) bare(id string, args ...string) (values []float64, err error) {
	text, err := w.run(id, append([]string{"python3", "-c", bare}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &values)
	}
	return values, err
}

// attached is a shell that runs a line, while it is attached to a terminal of this process.
type attached struct {
	keys *io.PipeWriter
	seen *io.PipeReader
	end  func() error
}

func (w *workspaces) attach(id, line string) (*attached, error) {
	s, err := w.sdk.OpenShell(w.ctx, pyro.OpenShellRequest{WorkspaceID: id})
	if err != nil {
		return nil, err
	}
	if _, err := w.sdk.WriteShell(w.ctx, pyro.WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: line}); err != nil {
		return nil, err
	}
	in, keys := io.Pipe()
	seen, out := io.Pipe()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := w.sdk.AttachShell(ctx, pyro.AttachShellRequest{WorkspaceID: id, ShellID: s.ShellID, Stdin: in, Stdout: out})
		out.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	return &attached{keys, seen, func() error {
		cancel()
		seen.Close()
		keys.Close()
		<-done
		_, err := w.sdk.CloseShell(w.ctx, id, s.ShellID)
		return err
	}}, nil
}

// await reads until the output contains the given text.
func (a *attached) await(text string) error {
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := a.seen.Read(buffer)
		seen.Write(buffer[:n])
		if err != nil {
			return fmt.Errorf("%q: %w", seen.String(), err)
		}
	}
	return nil
}

// echoed measures the time from typing a key to its echo.
func (w *workspaces) echoed(k kind, id string) error {
	n := max(w.n, 10) * 5
	floor, err := w.bare(id, "echo", fmt.Sprint(n))
	if err != nil {
		return err
	}
	a, err := w.attach(id, "echo $((50 + 5)); exec cat >/dev/null")
	if err != nil {
		return err
	}
	if err := a.await("55\r\n"); err != nil {
		return err
	}
	var took []float64
	key := make([]byte, 1)
	for range n {
		began := time.Now()
		if _, err := a.keys.Write([]byte("x")); err != nil {
			return err
		}
		if _, err := io.ReadFull(a.seen, key); err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	w.figures = append(w.figures, figure(string(k.isolation)+": a key in a shell up to its echo; floor: a bare PTY in the machine", "ms", took).over(floor, 3))
	return a.end()
}

// printed measures the throughput of a shell's output with a reader that never pauses.
func (w *workspaces) printed(k kind, id string) error {
	const bytes = 16 << 20
	floor, err := w.bare(id, "output", fmt.Sprint(bytes))
	if err != nil {
		return err
	}
	a, err := w.attach(id, fmt.Sprintf("stty raw -echo; echo $((50 + 5)); read x; head -c %d /dev/zero", bytes))
	if err != nil {
		return err
	}
	if err := a.await("55\n"); err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { a.seen.CloseWithError(errors.New("the rest was lost: more was printed than is kept")) })
	defer late.Stop()
	began := time.Now()
	if _, err := a.keys.Write([]byte("\n")); err != nil {
		return err
	}
	if n, err := io.CopyN(io.Discard, a.seen, bytes); err != nil {
		return fmt.Errorf("%d bytes came of %d: %w", n, bytes, err)
	}
	rate := bytes / time.Since(began).Seconds() / 1e6
	w.figures = append(w.figures, figure(string(k.isolation)+": output of a shell; floor: a bare PTY in the machine", "MB/s", []float64{rate}).share(floor, min(20/floor[0], 0.8)))
	return a.end()
}

// clock reads the machine's clock. Under emulation that clock drifts from the host's clock.
type clock struct{ *attached }

func (w *workspaces) clock(id string) (clock, error) {
	a, err := w.attach(id, "stty -echo; echo $((50 + 5)); exec bash -c 'while read x; do echo $EPOCHREALTIME; done'")
	if err == nil {
		err = a.await("55\r\n")
	}
	return clock{a}, err
}

// ahead returns how far the machine's clock is ahead of the host's clock. The error is half of the
// fastest round trip, a few ms.
func (c clock) ahead() (ahead time.Duration, err error) {
	shortest := time.Hour
	for range 8 {
		began := time.Now()
		if _, err := c.keys.Write([]byte("\n")); err != nil {
			return 0, err
		}
		var text strings.Builder
		for b := make([]byte, 1); b[0] != '\n'; {
			if _, err := io.ReadFull(c.seen, b); err != nil {
				return 0, err
			}
			text.Write(b)
		}
		took := time.Since(began)
		var seconds, micros int64
		if _, err := fmt.Sscanf(strings.TrimSpace(text.String()), "%d.%d", &seconds, &micros); err != nil {
			return 0, fmt.Errorf("the machine's clock says %q: %w", text.String(), err)
		}
		if took < shortest {
			shortest, ahead = took, time.Unix(seconds, micros*1000).Sub(began.Add(took/2))
		}
	}
	return ahead, nil
}

// ready measures the delay until a service that is ready is reported as ready.
func (w *workspaces) ready(k kind, id string) error {
	clock, err := w.clock(id)
	if err != nil {
		return err
	}
	defer clock.end()
	for kind, what := range map[pyro.ReadinessType][2]string{
		pyro.ReadyFile: {"ready", `open("ready", "w")`},
		pyro.ReadyTCP:  {"8001", `s = socket.create_server(("127.0.0.1", 8001))`},
		pyro.ReadyHTTP: {"http://127.0.0.1:8002/", `s = http.server.HTTPServer(("127.0.0.1", 8002), http.server.BaseHTTPRequestHandler); threading.Thread(target=s.serve_forever, daemon=True).start()`},
	} {
		script := fmt.Sprintf("import http.server, os, socket, threading, time\nhttp.server.BaseHTTPRequestHandler.do_GET = lambda r: (r.send_response(200), r.end_headers())\n"+
			"time.sleep(1)\n%s\nprint(time.time_ns(), flush=True)\ntime.sleep(1000)", what[1])
		var late []float64
		for range max(w.n, 5) {
			s, err := w.sdk.StartService(w.ctx, pyro.StartServiceRequest{
				WorkspaceID: id, ServiceName: "bench", Argv: []string{"python3", "-c", script}, Readiness: &pyro.Readiness{Type: kind, Target: what[0]},
			})
			if err != nil {
				return err
			}
			seen := *s.ReadyAt
			ahead, err := clock.ahead()
			if err != nil {
				return err
			}
			if _, err := w.sdk.StopService(w.ctx, id, "bench"); err != nil {
				return err
			}
			logs, err := w.sdk.LogsService(w.ctx, pyro.LogsServiceRequest{WorkspaceID: id, ServiceName: "bench"})
			if err != nil {
				return err
			}
			var at int64
			if _, err := fmt.Sscan(logs.Stdout, &at); err != nil {
				return fmt.Errorf("the service printed %q: %w", logs.Stdout, err)
			}
			late = append(late, float64(seen.Sub(time.Unix(0, at).Add(-ahead)).Microseconds())/1000)
			if _, err := w.run(id, "rm", "-f", "ready"); err != nil {
				return err
			}
		}
		w.figures = append(w.figures, figure(fmt.Sprintf("%s: a service becomes ready up to its being seen: %s", k.isolation, kind), "ms", late).atMost(20))
	}
	return nil
}
