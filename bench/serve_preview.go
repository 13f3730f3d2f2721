package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// guestServer is a web server for Python. It sends the number of bytes in the path, and discards
// the data that a client sends.
const guestServer = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = int(self.path[1:])
        self.send_response(200)
        self.send_header('Content-Length', str(left))
        self.end_headers()
        part = bytes(1 << 18)
        while left:
            n = min(left, len(part))
            self.wfile.write(part[:n])
            left -= n
    def do_PUT(self):
        left = int(self.headers['Content-Length'])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 18)))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler).serve_forever()
`

// guestPatience bounds the start of the web server.
const guestPatience = time.Minute

// servePreview measures the transfer of a large file through a preview in both directions, and the
// memory that the transfer needs.
func (w *workspaces) servePreview(s *apiServer, _ *hostAgent) error {
	path, err := s.create(w.ctx, 512)
	if err != nil {
		return err
	}
	if err := s.call(w.ctx, http.MethodPost, path+"/exec", map[string]any{"cmd": "python3", "args": []string{"-c", guestServer}, "background": true}, nil); err != nil {
		return err
	}
	host := "8000-" + strings.TrimPrefix(path, "/v1/sandboxes/") + ".localhost"
	for end := time.Now().Add(guestPatience); ; time.Sleep(20 * time.Millisecond) {
		if err = errors.Join(s.preview(w.ctx, host, http.MethodGet, 1<<20), s.preview(w.ctx, host, http.MethodPut, 1<<20)); err == nil {
			break
		}
		if w.ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
	// Forget the peak of earlier measurements.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil {
		return err
	}
	before, err := kilobytes(s.cmd.Process.Pid, "status", "VmHWM")
	if err != nil {
		return err
	}
	r, err := w.alternate(max(w.n/3, 3), timed(func() error { return s.preview(w.ctx, host, http.MethodPut, served500) }),
		timed(func() error { return s.preview(w.ctx, host, http.MethodGet, served500) }))
	if err != nil {
		return err
	}
	after, err := kilobytes(s.cmd.Process.Pid, "status", "VmHWM")
	w.figures = append(w.figures,
		figure("pyro serve: upload of 500 MB through a preview", "MB/s", r[0]), figure("pyro serve: download of 500 MB through a preview", "MB/s", r[1]),
		figure("pyro serve: peak memory after these previews; floor: after 1 MiB", "MiB", []float64{after}).over([]float64{before}, 16))
	return err
}

// preview sends size bytes to a preview, or gets them from it.
func (s *apiServer) preview(ctx context.Context, host, method string, size int64) error {
	path, body := fmt.Sprintf("/%d", size), io.Reader(nil)
	if method == http.MethodPut {
		body = io.LimitReader(zeroes{}, size)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return err
	}
	req.Host = host
	if body != nil {
		req.ContentLength = size
	}
	req.Header.Set("X-API-Key", s.key)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10))
	if err == nil && (r.StatusCode >= 300 || method == http.MethodGet && n != size) {
		err = fmt.Errorf("%s %s: status %d, and %d bytes came", method, path, r.StatusCode, n)
	}
	return err
}
