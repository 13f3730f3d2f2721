package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// secretMark is in the metadata of the sandbox of another team.
const secretMark = "secret-of-another-team"

// fuzzed is a world that serves the requests of a fuzzer.
type fuzzed struct {
	*world
	own, foreign string // sandboxes
}

func newFuzzed(f *testing.F) *fuzzed {
	z := &fuzzed{world: newWorld(f)}
	z.answerOperations()
	z.host.HostAgentServiceClient = hostagentv1connect.NewHostAgentServiceClient(noHost{}, "http://host")
	z.server.requests = newLimiter(1e9, 1e9, time.Now)
	var b Sandbox
	if got := z.call("foreign", "POST", "/v1/sandboxes", NewSandbox{Metadata: map[string]string{"mark": secretMark}}, &b); got != http.StatusCreated {
		f.Fatalf("got %d", got)
	}
	z.foreign = b.ID
	return z
}

// noHost is the transport for calls that the fake host does not implement.
type noHost struct{}

func (noHost) Do(*http.Request) (*http.Response, error) {
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("the fake host has no such call"))
}

// bounded is a response writer that fails after 1 MiB, as if the client had disconnected.
type bounded struct{ *httptest.ResponseRecorder }

func (b bounded) Write(data []byte) (int, error) {
	if b.Body.Len() > 1<<20 {
		return 0, io.ErrClosedPipe
	}
	return b.ResponseRecorder.Write(data)
}

// begin prepares a request. It creates the sandbox, the key and the session again if an earlier
// request has removed them.
func (z *fuzzed) begin(t *testing.T) {
	z.t = t
	if z.own == "" || z.host.Statuses()[z.own] == "" {
		z.own = z.create().ID
	}
	if _, err := z.control.SessionIdentity(t.Context(), secret.New(z.tokens["owner"]), ""); err != nil {
		z.tokens["owner"] = z.token(z.owner, z.team, time.Hour)
	}
}

// do sends a request to the server, and checks the properties that all answers must have.
func (z *fuzzed) do(r *http.Request) *httptest.ResponseRecorder {
	t := z.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of streams
	defer cancel()
	answer, calls := httptest.NewRecorder(), len(z.host.Calls())
	r.RemoteAddr = "192.0.2.1:1"
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { // net/http handles this one
				panic(p)
			}
		}()
		z.server.ServeHTTP(bounded{answer}, r.WithContext(ctx))
	}()
	content := answer.Body.Bytes()
	if answer.Code == http.StatusInternalServerError {
		t.Errorf("%s %s: got 500: %q", r.Method, r.RequestURI, content)
	}
	if answer.Code >= 400 && r.URL.Path != mcpPath { // MCP has its own errors
		var e Error
		if err := json.Unmarshal(content, &e); err != nil || e.Detail.Code == "" || e.Detail.Message == "" {
			t.Errorf("%s %s: got %d, and not the JSON of an error: %q", r.Method, r.RequestURI, answer.Code, content)
		}
	}
	if bytes.Contains(content, []byte(secretMark)) || z.host.Statuses()[z.foreign] != "running" {
		t.Errorf("%s %s: it reached a sandbox of another team", r.Method, r.RequestURI)
	}
	for _, c := range z.host.Calls()[calls:] {
		if c.Sandbox == z.foreign {
			t.Errorf("%s %s: it called %s of a sandbox of another team", r.Method, r.RequestURI, c.Method)
		}
	}
	return answer
}

// FuzzPath sends requests with any method and target. OWN and FOREIGN stand for sandboxes.
func FuzzPath(f *testing.F) {
	z := newFuzzed(f)
	for path, item := range z.server.OpenAPI().Paths {
		for method := range methodsOf(item) {
			f.Add(method, strings.ReplaceAll(path, "{id}", "OWN"))
			f.Add(method, strings.ReplaceAll(path, "{id}", "FOREIGN"))
		}
	}
	for _, target := range []string{
		"/", "*", "//", "/v1/sandboxes/", "/v1/sandboxes//FOREIGN", "/v1/sandboxes/OWN/../FOREIGN", "/v1/sandboxes/OWN%2f..%2fFOREIGN", "/v1/sandboxes/%00", "/v1/sandboxes/\xff",
		"/v1/sandboxes/FOREIGN/diff?paths=%00;a", "http://host/v1/sandboxes/FOREIGN", "/v1/events?after=-1", "/v1/audit-logs?before=9999999999999999999", "/mcp", "/preview?x=%zz", "/assets/", "/docs/%",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "CONNECT", "OPTIONS", "X"} {
			f.Add(method, target)
		}
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		if strings.ContainsAny(method+target, "\r\n") {
			return
		}
		z.begin(t)
		target = strings.NewReplacer("OWN", z.own, "FOREIGN", z.foreign).Replace(target)
		head := method + " " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" + keyHeader + ": " + z.keys["full"] + "\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			return // net/http answers it
		}
		z.do(r)
	})
}

// FuzzJSON sends any body to each operation with POST. An operation of a user gets a session.
func FuzzJSON(f *testing.F) {
	z := newFuzzed(f)
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(z.server.OpenAPI().Paths)) {
		if z.server.OpenAPI().Paths[path].Post != nil && !strings.Contains(path, "/capsules/") {
			paths = append(paths, path)
		}
	}
	for i := range paths {
		for _, in := range []string{
			"", "{}", "null", "[]", "{", `"\ud800"`, `{"path": "/9999999999", "depth": 1e400}`, `{"path": "\u0000"}`, `{"name": "\u0000", "slug": "\u0000", "email": "\u0000@a.b", "role": "owner"}`,
			`{"template": "\u0000"}`, `{"template": "debian:12", "vcpus": 1, "metadata": {"\u0000": "\u0000"}}`, `{"vcpus": -1, "memory_mb": 9223372036854775808}`, `{"cmd": "true", "args": [null], "timeout_sec": 1e9}`,
			`{"sandbox_id": "FOREIGN", "name": "a"}`, `{"live": true, "snapshot": "` + strings.Repeat("a", 300) + `"}`,
		} {
			f.Add(uint8(i), []byte(in))
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, in []byte) {
		z.begin(t)
		path := strings.ReplaceAll(paths[int(index)%len(paths)], "{id}", z.own)
		in = bytes.ReplaceAll(in, []byte("FOREIGN"), []byte(z.foreign))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(in))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		if _, ok := z.find(http.MethodPost, path).Metadata[needsUser]; ok {
			z.sign(r, "owner")
		} else {
			z.sign(r, "full")
		}
		answer := z.do(r)
		z.conforms(http.MethodPost, path, answer.Code, answer.Body.Bytes())
		var made struct{ ID string }
		if json.Unmarshal(answer.Body.Bytes(), &made); strings.HasPrefix(made.ID, store.SandboxPrefix) && made.ID != z.own {
			z.call("full", http.MethodDelete, "/v1/sandboxes/"+made.ID, nil, nil)
		}
	})
}

// FuzzMultipart sends forms with files. The host must have a file only if the form is complete.
// Reading the body fails after a number of bytes, as if the client had disconnected.
func FuzzMultipart(f *testing.F) {
	z := newFuzzed(f)
	const kind = "multipart/form-data; boundary=x"
	named := form("/a", "content")
	whole := strings.Replace(named, `; filename="a"`, "", 1)
	for _, stream := range []bool{false, true} {
		for _, body := range []string{
			whole, named, strings.TrimSuffix(named, "--\r\n"), strings.TrimSuffix(named, "--x--\r\n"), named + "rest", field("file", "x") + field("path", "/a") + "--x--", field("path", "/a") + named, "--x--", "",
			strings.Replace(named, "\r\n\r\ncontent", "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41=0", 1), strings.ReplaceAll(named, "\r\n", "\n"),
			strings.Replace(named, "content", strings.Repeat("long", 1<<10), 1), strings.Replace(named, "/a", "/\x00", 1), strings.Replace(named, "/a", "/\xff", 1),
			strings.Replace(named, "\r\n\r\ncontent", strings.Repeat("\r\nA: b", 1<<10)+"\r\n\r\ncontent", 1),
		} {
			f.Add(stream, kind, []byte(body), uint16(len(body)))
			f.Add(stream, kind, []byte(body), uint16(len(body)/2))
		}
		for _, kind := range []string{"", "multipart/form-data", "multipart/form-data; boundary=", `multipart/form-data; boundary="a b"`, "multipart/mixed; boundary=x", "multipart/form-data; boundary=" + strings.Repeat("x", 100), "application/json"} {
			f.Add(stream, kind, []byte(named), uint16(len(named)))
		}
	}
	f.Fuzz(func(t *testing.T, stream bool, kind string, in []byte, cut uint16) {
		z.begin(t)
		body := func() io.Reader {
			if int(cut) >= len(in) {
				return bytes.NewReader(in)
			}
			return io.MultiReader(bytes.NewReader(in[:cut]), broken{})
		}
		path := "/v1/sandboxes/" + z.own + "/files/write"
		if stream {
			path = "/v1/sandboxes/" + z.own + streamWrite
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body())
		r.Host = "localhost"
		r.Header.Set("Content-Type", kind)
		z.sign(r, "full")
		answer := z.do(r)
		files := z.host.TakeFiles()
		if answer.Code != http.StatusNoContent {
			if len(files) > 0 {
				t.Errorf("got %d, and the host has %q", answer.Code, files)
			}
			return
		}
		to, content, ok := wholeForm(kind, body(), stream)
		if !ok || len(files) != 1 || files[to] != content {
			t.Errorf("got 204, and the host has %q; the form has %q with %q, and is complete: %v", files, to, content, ok)
		}
	})
}

// broken is the body of a request whose client has disconnected.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// wholeForm returns the first fields path and file of a form. raw leaves their encoding as it is.
// ok is false if the form is not complete.
func wholeForm(kind string, body io.Reader, raw bool) (path, content string, ok bool) {
	_, parameters, _ := mime.ParseMediaType(kind)
	in, fields := multipart.NewReader(body, parameters["boundary"]), map[string]string{}
	next := in.NextPart
	if raw {
		next = in.NextRawPart
	}
	for {
		part, err := next()
		if err != nil {
			return fields["path"], fields["file"], err == io.EOF
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return "", "", false
		}
		if _, again := fields[part.FormName()]; !again {
			fields[part.FormName()] = string(data)
		}
	}
}
