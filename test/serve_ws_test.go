//go:build machine

package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/client"
)

// wsFrame is a frame from "pyro serve".
type wsFrame struct {
	Type, Tag, Data, Encoding, Error, Status, Path string
	PID                                            int
	Offset                                         int64
	ExitCode                                       *int `json:"exit_code"`
}

// ws is a WebSocket to "pyro serve".
type ws struct {
	t *testing.T
	*websocket.Conn
	shown strings.Builder // output of a terminal
	next  int64           // offset after it
}

// dial opens a WebSocket and sends frames.
func (a *api) dial(path string, frames ...map[string]any) *ws {
	a.t.Helper()
	c, _, err := websocket.Dial(a.t.Context(), a.address+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {a.key}}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(1 << 20)
	w := &ws{t: a.t, Conn: c}
	for _, f := range frames {
		w.send(f)
	}
	return w
}

func (w *ws) send(f map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(f)
	if err == nil {
		err = w.Write(w.t.Context(), websocket.MessageText, text)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// typed types into a terminal.
func (w *ws) typed(text string) {
	w.t.Helper()
	w.send(map[string]any{"type": "input", "data": []byte(text)})
}

// frame returns the next frame.
func (w *ws) frame() (f wsFrame) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.frameIn(ctx)
}

// frameIn returns the next frame, unless ctx ends before.
func (w *ws) frameIn(ctx context.Context) (f wsFrame) {
	w.t.Helper()
	_, text, err := w.Read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		w.t.Fatalf("%v; the terminal showed %q", err, w.shown.String())
	}
	return f
}

// shows waits until a terminal has shown a text. The limit applies to the whole wait, because an
// idle terminal sends pings.
func (w *ws) shows(text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for !strings.Contains(w.shown.String(), text) {
		switch f := w.frameIn(ctx); f.Type {
		case "output":
			data, err := base64.StdEncoding.DecodeString(f.Data)
			if err != nil {
				w.t.Fatal(err)
			}
			w.shown.Write(data)
			w.next = f.Offset + int64(len(data))
		case "started", "ping":
		default:
			w.t.Fatalf("got %+v; the terminal showed %q, not %q", f, w.shown.String(), text)
		}
	}
}

// all returns the output and the exit code of a program.
func (w *ws) all() (stdout, stderr string, code int) {
	w.t.Helper()
	pid := 0
	for {
		f := w.frame()
		data := f.Data
		if f.Encoding == "base64" {
			b, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				w.t.Fatal(err)
			}
			data = string(b)
		}
		switch f.Type {
		case "start":
			pid = f.PID
		case "stdout":
			stdout += data
		case "stderr":
			stderr += data
		case "exit":
			if (pid == 0) != (f.Error != "") {
				w.t.Errorf("the program has the PID %d: %+v", pid, f)
			}
			return stdout, stderr, *f.ExitCode
		default:
			w.t.Fatalf("got %+v", f)
		}
	}
}

// TestServeStreams uses the WebSockets of the API on a real machine.
func TestServeStreams(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	_, one := a.create(client.NewSandbox{Template: new(environment)})
	sh := func(script string) map[string]any {
		return map[string]any{"type": "start", "cmd": "sh", "args": []string{"-c", script}}
	}

	stdout, stderr, code := a.dial(one+"/exec/stream", sh(`echo one; echo é >&2; printf '\377'; exit 7`)).all()
	if stdout != "one\n\xff" || stderr != "é\n" || code != 7 {
		t.Errorf("got %q, %q and %d", stdout, stderr, code)
	}
	if _, _, code := a.dial(one+"/exec/stream", map[string]any{"type": "start", "cmd": "no-such-program"}).all(); code != 127 {
		t.Errorf("got %d", code)
	}
	stdout, _, _ = a.dial(one+"/exec/stream", sh("seq 1 2000000")).all()
	if !strings.HasSuffix(stdout, "\n1999999\n2000000\n") || len(stdout) != 14888896 {
		t.Errorf("got %d bytes", len(stdout))
	}
	c := a.dial(one+"/exec/stream", sh("echo running; exec sleep 1234"))
	for c.frame().Type != "stdout" {
	}
	c.send(map[string]any{"type": "stop"})
	if f, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after stop: %v, %v", f, err)
	}
	left := a.sh(one, "for i in 1 2 3 4 5 6 7 8 9; do grep -l '^sleep.1234' /proc/[0-9]*/cmdline 2>/dev/null || exit 0; sleep 1; done")
	if lines := strings.Split(strings.TrimSpace(left), "\n"); len(lines) == 9 {
		t.Error("the program runs after stop")
	}

	a.must(202, "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", "echo hello; echo wrong >&2; read a < /tmp/go; exit 3"}, "background": true, "tag": "waits"}, nil)
	a.sh(one, "mkfifo /tmp/go")
	c = a.dial(one + "/processes/waits/stream")
	go a.try(t.Context(), "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", "sleep 1; echo go > /tmp/go"}}, nil)
	if stdout, stderr, code := c.all(); stdout != "hello\n" || !strings.Contains(stderr, "wrong\n") {
		t.Errorf("got %q, %q and %d", stdout, stderr, code)
	}
}

// TestServeTerminals uses a terminal over a WebSocket, even after the connection has failed and
// after the server has restarted.
func TestServeTerminals(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	_, one := a.create(client.NewSandbox{Template: new(environment)})
	path := one + "/pty"
	c := a.dial(path, map[string]any{"type": "start", "cols": 91, "rows": 31, "envs": map[string]string{"PS1": "> ", "WHO": "you"}, "cwd": "/tmp"})
	started := c.frame()
	if started.Type != "started" || started.Tag == "" || started.PID == 0 {
		t.Fatalf("%+v", started)
	}
	c.typed("stty size; pwd; echo hello $WHO; echo $0-$TERM\r")
	c.shows("31 91\r\n/tmp\r\nhello you\r\n")
	// Before bash edits a line, it reads the size of the terminal and sets the same size again. A
	// resize between the two would be lost. So wait until the editor has started.
	c.shows("-xterm-256color\r\n\x1b[?2004h")
	c.send(map[string]any{"type": "resize", "cols": 100, "rows": 40})
	c.typed("stty size\r")
	c.shows("40 100\r\n")
	c.typed("echo ma''rk; sleep 1; echo la''ter\r")
	c.shows("mark\r\n")
	seen := c.next
	c.CloseNow() // simulates a failure of the network

	connect := map[string]any{"type": "connect", "tag": started.Tag}
	c = a.dial(path, connect)
	c.shows("40 100\r\n") // the stored output
	c.shows("later\r\n")
	again := a.dial(path, map[string]any{"type": "connect", "tag": started.Tag, "offset": seen})
	again.shows("later\r\n")
	if strings.Contains(again.shown.String(), "mark") {
		t.Errorf("from an offset, it showed %q", again.shown.String())
	}

	// A shutdown asks the clients to connect again.
	a.server.Process.Signal(syscall.SIGTERM)
	for {
		_, _, err := c.Read(t.Context())
		if err == nil {
			continue
		}
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("at the end: %v", err)
		}
		break
	}
	if err := a.server.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	a.start()
	c = a.dial(path, connect)
	c.shows("later\r\n")
	c.typed("echo af''ter\r")
	c.shows("after\r\n")
	a.kill()
	a.start()
	c = a.dial(path, connect)
	c.shows("after\r\n")
	// While bash edits a line, the terminal does not translate a carriage return. So wait until
	// bash has left the editor.
	c.typed("echo re''ady; read x; exit $x\r")
	c.shows("ready\r\n")
	c.typed("5\r")
	for {
		f := c.frame()
		if f.Type == "output" || f.Type == "started" || f.Type == "ping" {
			continue
		}
		if f.Type != "exit" || *f.ExitCode != 5 {
			t.Errorf("%+v", f)
		}
		break
	}
	// A program that draws the whole screen, and asks for its size again after a resize.
	c = a.dial(path, map[string]any{"type": "start", "cmd": "bash", "args": []string{"-c", `draw() { printf '\e[2J\e[H%sx%s' $(stty size); }; trap draw WINCH; printf '\e[?1049h'; draw; while read -rsn1 -t 60 key || [ $? -gt 128 ]; do [ "$key" = q ] && break; done; printf '\e[?1049l'`}})
	c.shows("\x1b[?1049h\x1b[2J\x1b[H24x80")
	c.send(map[string]any{"type": "resize", "cols": 60, "rows": 20})
	c.shows("\x1b[2J\x1b[H20x60")
	c.typed("q")
	c.shows("\x1b[?1049l")

	// The default shell without bash, as in Alpine.
	a.sh(one, "mv /bin/bash /bin/moved")
	c = a.dial(path, map[string]any{"type": "start", "cmd": "/bin/bash"})
	c.typed("readlink /proc/$$/exe\r")
	c.shows("/dash\r\n")
	c = a.dial(path, map[string]any{"type": "start", "cmd": "cat", "tag": "mine"}, map[string]any{"type": "kill"})
	for f := c.frame(); f.Type != "exit"; f = c.frame() {
	}
}

// TestServeLargeFile moves 200 MB in both directions.
func TestServeLargeFile(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	_, one := a.create(client.NewSandbox{Template: new(environment)})
	files := a.address + one + "/files"
	const size = 200_000_000
	send := func(path string, body io.Reader, kind string) (*http.Response, error) {
		return http.DefaultClient.Do(newRequest(t.Context(), "POST", files+path, body, "X-API-Key", a.key, "Content-Type", kind))
	}
	upload := func(sum io.Writer, size int64, cut bool) (int, string) {
		r, w := io.Pipe()
		form := multipart.NewWriter(w)
		go func() {
			form.WriteField("path", "/srv/big")
			part, _ := form.CreateFormFile("file", "big")
			var seed [32]byte
			io.Copy(io.MultiWriter(part, sum), io.LimitReader(rand.NewChaCha8(seed), size))
			if cut {
				w.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			form.Close()
			w.Close()
		}()
		answer, err := send("/stream/write", r, form.FormDataContentType())
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	wrote, read := sha256.New(), sha256.New()
	if got, text := upload(wrote, size, false); got != 204 {
		t.Fatalf("got %d: %s", got, text)
	}
	if got, text := upload(io.Discard, size/4, true); got == 204 {
		t.Errorf("a part of a file: got %d: %s", got, text)
	}
	r, err := send("/stream/read", strings.NewReader(`{"path":"/srv/big"}`), "application/json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if n, err := io.Copy(read, r.Body); n != size || err != nil || !bytes.Equal(read.Sum(nil), wrote.Sum(nil)) {
		t.Errorf("got %d other bytes, %v", n, err)
	}
	peak := a.peak()
	t.Logf("the peak memory of the server is %d MiB", peak)
	if peak > 120 {
		t.Errorf("the peak memory of the server is %d MiB", peak)
	}
}

// TestServeNode uses a program and a terminal with the WebSocket of Node.js. It sends the API key
// in the first frame, as a browser does.
func TestServeNode(t *testing.T) {
	t.Parallel()
	node := nodeWithClients(t)
	a := serveAPI(t)
	var b client.Sandbox
	a.must(201, "POST", "/v1/capsules", map[string]any{"template": environment}, &b)
	script, err := filepath.Abs("mcp/socket.mjs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, script, strings.Replace(a.address, "http:", "ws:", 1)+"/v1/capsules/"+b.Id)
	cmd.Env = append(os.Environ(), "KEY="+a.key)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v: %s", err, out)
	}
}
