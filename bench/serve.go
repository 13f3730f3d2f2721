package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// serve measures the HTTP API of pyro serve. The floor of each figure is a gRPC call of the host
// agent, with a separate sandbox.
func (b *bench) serve() error {
	return b.onWorkspaces(func(w *workspaces) []step {
		kinds := w.hostKinds()
		return []step{{"pyro serve", func() error { return w.servedAPI(kinds[len(kinds)-1]) }}} // the overhead of pyro serve does not depend on the isolation level
	})
}

// apiServer is a running pyro serve.
type apiServer struct {
	cmd      *exec.Cmd
	url, key string
}

// startServer starts pyro serve with its own state folder and additional flags.
func startServer(ctx context.Context, state string, level pyro.Isolation, flags ...string) (*apiServer, error) {
	keyFile := filepath.Join(state, "api-key")
	s := &apiServer{cmd: exec.CommandContext(ctx, "bin/pyro", append([]string{"serve", "--listen", "127.0.0.1:0", "--network-policy", "off", "--log-level", "error", "--api-key-file", keyFile}, flags...)...)}
	s.cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+state, "PYRO_ISOLATION="+string(level))
	var err error
	if s.url, err = startServing(s.cmd); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(keyFile)
	s.key = strings.TrimSpace(string(key))
	return s, err
}

// end deletes all sandboxes and stops the server.
func (s *apiServer) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	var all []struct{ ID string }
	err := s.call(ctx, http.MethodGet, "/v1/sandboxes", nil, &all)
	for _, b := range all {
		err = errors.Join(err, s.call(ctx, http.MethodDelete, "/v1/sandboxes/"+b.ID, nil, nil))
	}
	return errors.Join(err, s.stop())
}

// stop stops the server.
func (s *apiServer) stop() error {
	return errors.Join(s.cmd.Process.Signal(syscall.SIGTERM), s.cmd.Wait())
}

// call sends a request and decodes the answer.
func (s *apiServer) call(ctx context.Context, method, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := s.send(ctx, method, path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, r.Body)
		return err
	}
	return json.NewDecoder(r.Body).Decode(out)
}

func (s *apiServer) send(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", s.key)
	req.Header.Set("Content-Type", kind)
	r, err := http.DefaultClient.Do(req)
	if err == nil && r.StatusCode >= 300 {
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		err = fmt.Errorf("%s %s: status %d: %s", method, path, r.StatusCode, text)
	}
	return r, err
}

// create creates a sandbox and returns its path.
func (s *apiServer) create(ctx context.Context, memory int) (string, error) {
	var b struct{ ID string }
	err := s.call(ctx, http.MethodPost, "/v1/sandboxes", map[string]any{"template": environmentName, "memory_mb": memory}, &b)
	return "/v1/sandboxes/" + b.ID, err
}

func (w *workspaces) servedAPI(k kind) (err error) {
	h, err := w.serveHost(k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.end(w.ctx)) }()
	s, err := startServer(w.ctx, filepath.Join(w.dir, "serve"), k.isolation)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end(w.ctx)) }()
	for _, measure := range []func(*apiServer, *hostAgent) error{w.serveCreate, w.serveEcho, w.serveFiles, w.servePreview} {
		if err := measure(s, h); err != nil {
			return err
		}
	}
	return nil
}

// serveCreate measures a creation and the first program.
func (w *workspaces) serveCreate(s *apiServer, h *hostAgent) error {
	n := 0
	r, err := w.alternate(max(w.n, 10), func() (float64, error) {
		began := time.Now()
		path, err := s.create(w.ctx, 512)
		if err == nil {
			err = s.call(w.ctx, http.MethodPost, path+"/exec", map[string]any{"cmd": "/bin/true"}, nil)
		}
		took := time.Since(began)
		return milliseconds(took), errors.Join(err, s.call(w.ctx, http.MethodDelete, path, nil, nil))
	}, func() (float64, error) {
		n++
		id := fmt.Sprintf("first-%d", n)
		began := time.Now()
		_, err := h.CreateSandbox(w.ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: id, Template: environmentName, Vcpus: 1, MemoryMb: 512, DiskSizeMb: 5120}))
		if err == nil {
			_, err = h.Exec(w.ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: id, Cmd: "/bin/true"}))
		}
		took := time.Since(began)
		_, failed := h.DestroySandbox(w.ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: id}))
		return milliseconds(took), errors.Join(err, failed)
	})
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure("pyro serve: create a sandbox and run /bin/true; floor: the host agent over gRPC", "ms", r[0]).over(r[1], 25))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// serveEcho measures the time from typing a line to its echo on a terminal.
func (w *workspaces) serveEcho(s *apiServer, h *hostAgent) error {
	path, err := s.create(w.ctx, 512)
	if err != nil {
		return err
	}
	socket, _, err := websocket.Dial(w.ctx, s.url+path+"/pty", &websocket.DialOptions{HTTPHeader: http.Header{"X-API-Key": {s.key}}})
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	socket.SetReadLimit(1 << 20)
	type frame struct {
		Type string   `json:"type"`
		Cmd  string   `json:"cmd,omitempty"`
		Args []string `json:"args,omitempty"`
		Data []byte   `json:"data,omitempty"` // base64
	}
	send := func(f frame) error {
		text, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return socket.Write(w.ctx, websocket.MessageText, text)
	}
	await := func(line string) error {
		return shown(line, func() ([]byte, error) {
			_, text, err := socket.Read(w.ctx)
			var f frame
			if err == nil {
				err = json.Unmarshal(text, &f)
			}
			if f.Type != "output" {
				f.Data = nil
			}
			return f.Data, err
		})
	}
	if err := errors.Join(send(frame{Type: "start", Cmd: "sh", Args: []string{"-c", echoing}}), await("ready")); err != nil {
		return err
	}

	if _, err := h.CreateSandbox(w.ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "echo", Template: environmentName, MemoryMb: 512})); err != nil {
		return err
	}
	stream, err := h.PtyAttach(w.ctx, connect.NewRequest(&pb.PtyAttachRequest{SandboxId: "echo", Tag: "echo", Cmd: "sh", Args: []string{"-c", echoing}}))
	if err != nil {
		return err
	}
	defer stream.Close()
	next := func() ([]byte, error) {
		if !stream.Receive() {
			return nil, errors.Join(stream.Err(), io.ErrUnexpectedEOF)
		}
		return stream.Msg().GetOutput().GetData(), nil
	}
	if err := shown("ready", next); err != nil {
		return err
	}
	lines := 0
	line := func() string { lines++; return fmt.Sprintf("line %d.", lines) }
	r, err := w.times(max(w.n, 10)*20, func() error {
		l := line()
		if err := send(frame{Type: "input", Data: []byte(l + "\n")}); err != nil {
			return err
		}
		return await(l)
	}, func() error {
		l := line()
		if _, err := h.PtySendInput(w.ctx, connect.NewRequest(&pb.PtySendInputRequest{SandboxId: "echo", Tag: "echo", Data: []byte(l + "\n")})); err != nil {
			return err
		}
		return shown(l, next)
	})
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure("pyro serve: a line up to its echo, over a WebSocket; floor: the host agent over gRPC", "ms", r[0]).over(r[1], 2))
	return nil
}

// shown reads output until a line has come.
func shown(line string, next func() ([]byte, error)) error {
	var all []byte
	for !bytes.Contains(all, []byte(line)) {
		data, err := next()
		if err != nil {
			return fmt.Errorf("%q has come: %w", all, err)
		}
		all = append(all, data...)
	}
	return nil
}

// served500 is the size of the file that serveFiles moves, in bytes.
const served500 = 500_000_000

// serveFiles measures the transfer of a large file in both directions, and the memory that the
// transfer needs.
func (w *workspaces) serveFiles(s *apiServer, h *hostAgent) error {
	path, err := s.create(w.ctx, 2560)
	if err != nil {
		return err
	}
	if _, err := h.CreateSandbox(w.ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "files", Template: environmentName, MemoryMb: 2560})); err != nil {
		return err
	}
	if err := errors.Join(s.write(w.ctx, path, 1<<20), s.read(w.ctx, path, 1<<20)); err != nil {
		return err
	}
	before, err := kilobytes(s.cmd.Process.Pid, "status", "VmHWM")
	if err != nil {
		return err
	}
	r, err := w.alternate(max(w.n/3, 3), timed(func() error { return s.write(w.ctx, path, served500) }), timed(func() error { return s.read(w.ctx, path, served500) }),
		timed(func() error { return w.hostWrites(h) }), timed(func() error { return w.hostReads(h, "files", served500) }))
	if err != nil {
		return err
	}
	after, err := kilobytes(s.cmd.Process.Pid, "status", "VmHWM")
	w.figures = append(w.figures,
		figure("pyro serve: files/stream/write of 500 MB; floor: WriteFileStream over gRPC", "MB/s", r[0]).beside(r[2]),
		figure("pyro serve: files/stream/read of 500 MB; floor: ReadFileStream over gRPC", "MB/s", r[1]).beside(r[3]),
		figure("pyro serve: peak memory after these files; floor: after 1 MiB", "MiB", []float64{after}).over([]float64{before}, 16))
	return err
}

// timed returns a function that measures the throughput of moving the large file.
func timed(move func() error) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		err := move()
		return rate(served500, time.Since(began)), err
	}
}

func (s *apiServer) write(ctx context.Context, path string, size int64) error {
	r, out := io.Pipe()
	form := multipart.NewWriter(out)
	go func() {
		err := form.WriteField("path", hostFile)
		if part, failed := form.CreateFormFile("file", "file"); err == nil && failed == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{part}, io.LimitReader(zeroes{}, size), make([]byte, 256<<10))
		}
		out.CloseWithError(errors.Join(err, form.Close()))
	}()
	defer r.Close()
	answer, err := s.send(ctx, http.MethodPost, path+"/files/stream/write", form.FormDataContentType(), r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (s *apiServer) read(ctx context.Context, path string, size int64) error {
	answer, err := s.send(ctx, http.MethodPost, path+"/files/stream/read", "application/json", strings.NewReader(`{"path":"`+hostFile+`"}`))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, make([]byte, 256<<10))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes came", n)
	}
	return err
}

func (w *workspaces) hostWrites(h *hostAgent) error {
	stream := h.WriteFileStream(w.ctx)
	err := stream.Send(&pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Meta{Meta: &pb.WriteFileStreamMeta{SandboxId: "files", Path: hostFile}}})
	part := make([]byte, 256<<10)
	for left := served500; left > 0 && err == nil; left -= len(part) {
		err = stream.Send(&pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Chunk{Chunk: part[:min(len(part), left)]}})
	}
	_, failed := stream.CloseAndReceive()
	return errors.Join(err, failed)
}
