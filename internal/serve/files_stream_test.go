package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// upload sends a body to files/stream/write.
func (w *world) upload(id string, body io.Reader) (status int, e Error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/v1/sandboxes/"+id+"/files/stream/write", body)
	w.check(err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	req.Header.Set(keyHeader, w.keys["full"])
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, e
	}
	defer r.Body.Close()
	json.NewDecoder(r.Body).Decode(&e)
	return r.StatusCode, e
}

// field returns a field of a form.
func field(name, content string) string {
	return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, content)
}

// form returns a form with the path and the content of a file.
func form(path, content string) string {
	return field("path", path) + strings.Replace(field("file", content), `name="file"`, `name="file"; filename="a"`, 1) + "--x--\r\n"
}

func TestStreamWrite(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	if got, e := w.upload(id, iotest.OneByteReader(strings.NewReader(field("path", "/a")+field("file", "x\r\n--y")+"--x--\r\n"))); got != 204 {
		t.Errorf("got %d: %+v", got, e)
	}
	if got, _ := w.host.File("/a"); got != "x\r\n--y" {
		t.Errorf("got %q", got)
	}
	for name, in := range map[string]struct{ body, says string }{
		"file first":      {field("file", "x") + field("path", "/b") + "--x--", "path must come before the field file"},
		"no path":         {"--x--", "path is missing"},
		"another field":   {field("mode", "1") + field("path", "/b") + "--x--", "path is missing"},
		"an empty path":   {field("path", "") + field("file", "x") + "--x--", "1 to 4096 bytes"},
		"a long path":     {field("path", strings.Repeat("b", maxPath+1)) + field("file", "x") + "--x--", "1 to 4096 bytes"},
		"no file":         {field("path", "/b") + "--x--", "must follow"},
		"two files":       {field("path", "/b") + field("file", "x") + field("file", "y") + "--x--", "the last one"},
		"cut in the path": {strings.TrimSuffix(field("path", "/b"), "b\r\n"), "read the form"},
		"cut in the file": {field("path", "/b") + strings.TrimSuffix(field("file", "x"), "\r\n"), "read the form"},
		"cut at its end":  {field("path", "/b") + field("file", "x"), "read the form"},
	} {
		if got, e := w.upload(id, strings.NewReader(in.body)); got != 400 || e.Detail.Code != "invalid_request" || !strings.Contains(e.Detail.Message, in.says) {
			t.Errorf("%s: got %d: %+v", name, got, e)
		}
	}
	if _, ok := w.host.File("/b"); ok {
		t.Error("a wrong form has written a file")
	}
	r, out := io.Pipe()
	go func() {
		io.WriteString(out, field("path", "/b")+field("file", "x"))
		testenv.Eventually(w.t, "the server reads", func() bool { return w.host.Received() > 0 })
		out.CloseWithError(context.Canceled) // the client leaves
	}()
	w.upload(id, r)
	if _, ok := w.host.File("/b"); ok {
		t.Error("a client that left has written a file")
	}
}

// TestLargeFiles transfers a file in both directions, and checks that the memory use does not grow.
// make bench does the same with 500 MB.
func TestLargeFiles(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	size := testenv.Rounds(50_000_000, 500_000_000)
	var peak atomic.Uint64
	stop := make(chan struct{})
	go func() {
		for {
			peak.Store(max(peak.Load(), liveHeap()))
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	defer close(stop)
	runtime.GC()
	before := liveHeap()
	body := io.MultiReader(strings.NewReader(field("path", "/big")+strings.TrimSuffix(field("file", ""), "\r\n")), io.LimitReader(zeros, int64(size)), strings.NewReader("\r\n--x--\r\n"))
	if got, e := w.upload(id, body); got != 204 || w.host.Received() != int64(size) {
		t.Errorf("got %d and %d bytes: %+v", got, w.host.Received(), e)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/capsules/"+id+"/files/stream/read", strings.NewReader(fmt.Sprintf(`{"path":"/%d"}`, size)))
	w.check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(keyHeader, w.keys["full"])
	r, err := http.DefaultClient.Do(req)
	w.check(err)
	defer r.Body.Close()
	if n, err := io.Copy(io.Discard, r.Body); n != int64(size) || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if grown := int64(peak.Load()) - int64(before); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// liveHeap returns the bytes of the heap that were in use at the last garbage collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzUpload sends forms. The server must accept or refuse each form, and never write an incomplete
// file.
func FuzzUpload(f *testing.F) {
	whole := field("path", "/a") + field("file", "x") + "--x--"
	for _, text := range []string{whole, whole[:20], whole[:len(whole)-3], "--x--", "", field("path", "a/../b") + field("file", "") + "--x--", "--x\r\nContent-Disposition: form-data; name=path; filename*=utf-8''%ff\r\n\r\n"} {
		f.Add([]byte(text))
	}
	w := newWorld(f)
	w.server.requests = newLimiter(1e9, 1e9, time.Now)
	id := w.create().ID
	f.Fuzz(func(t *testing.T, form []byte) {
		in := *w
		in.t = t
		got, e := in.upload(id, bytes.NewReader(form))
		if got != http.StatusNoContent && (got != http.StatusBadRequest || e.Detail.Message == "") {
			t.Errorf("%q: got %d: %+v", form, got, e)
		}
		if got == http.StatusNoContent && !bytes.Contains(form, []byte("--x--")) {
			t.Errorf("%q was accepted", form)
		}
	})
}
