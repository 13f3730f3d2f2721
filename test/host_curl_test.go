//go:build machine

package test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// hostCurl calls the host agent with curl. It uses the Connect protocol over HTTP/1.1 with JSON.
type hostCurl struct {
	t                *testing.T
	address, metrics string
	flags            []string // flags for authentication
}

// TestHostAgentOverHTTP1 makes each kind of call with curl over HTTP/1.1. It authenticates with
// certificates and with a token. Some control planes use Connect in this way.
func TestHostAgentOverHTTP1(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	buf := bufTool(t)
	p := workspaces(t)
	certs := p.hostCerts()
	agent, address := p.serveHost(append(certs.served(), "--metrics-listen", "127.0.0.1:0")...)
	if !strings.HasPrefix(address, "https://") {
		t.Fatalf("it serves at %q", address)
	}
	c := hostCurl{t, address, metricsAt(agent), certs.shown(certs.ours)}
	c.says("CreateSandbox", `{"sandboxId": "one"}`, `^200 .*"status":"running"`)
	c.calls()
	shows := func(dir string) []*exec.Cmd {
		shown, at := certs.shown(dir), address+"/hostagent.v1.HostAgentService/ListSandboxes"
		return []*exec.Cmd{
			exec.CommandContext(t.Context(), "curl", append(shown, "-sS", "--http1.1", "-H", "Content-Type: application/json", "-d", "{}", at)...),
			exec.CommandContext(t.Context(), buf, append([]string{"curl", "--protocol", "grpc", "--schema", "../proto", at}, shown...)...),
		}
	}
	for _, cmd := range shows(certs.ours) {
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"running"`)) {
			t.Errorf("%v: %v %s", cmd, err, out)
		}
	}
	for dir := range certs.refused() {
		for _, cmd := range shows(dir) {
			if out, err := cmd.CombinedOutput(); err == nil || bytes.Contains(out, []byte(`"running"`)) {
				t.Errorf("%v: %v %s", cmd, err, out)
			}
		}
	}
	agent.Process.Signal(os.Interrupt)
	end := agent.end()
	for _, why := range certs.refused() { // some clients see only that the connection closes
		if end.code != 0 || strings.Count(end.stderr, why) < 2 {
			t.Errorf("not both clients were refused: %q: %+v", why, end)
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(hostToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, address = p.serveHost("--token-file", token, "--metrics-listen", "127.0.0.1:0")
	c.address, c.metrics = address, metricsAt(agent)
	for _, shown := range []string{"Bearer wrong", "Bearer " + hostToken + "x", ""} {
		c.flags = []string{"-H", "Authorization: " + shown}
		c.says("Terminate", `{}`, `^401 .*"code":"unauthenticated".*"type":"hostagent.v1.ErrorDetail"`)
	}
	c.flags = []string{"-H", "Authorization: Bearer " + hostToken}
	c.calls()
	c.says("Terminate", `{}`, `^200 \{\}`)
	if end := agent.end(); end.code != 0 {
		t.Errorf("after Terminate: %+v", end)
	}
}

// metricsAt returns the address that serves the metrics of a host agent.
func metricsAt(agent *running) string {
	return strings.TrimSpace(strings.TrimPrefix(agent.untilLine("metrics at "), "metrics at "))
}

// calls makes calls of every kind.
func (c hostCurl) calls() {
	c.t.Helper()
	c.says("WriteFile", `{"sandboxId": "one", "path": "/srv/f", "content": "aGVsbG8="}`, `^200 \{\}`)
	c.says("ReadFile", `{"sandboxId": "one", "path": "/srv/f"}`, `^200 .*"content":"aGVsbG8="`)
	c.says("Exec", `{"sandboxId": "one", "cmd": "sh", "args": ["-c", "cat /srv/f; exit 7"]}`, `^200 .*"stdout":"aGVsbG8=".*"exitCode":7`)
	c.says("PingSandbox", `{"sandboxId": "none"}`, `^404 .*"code":"not_found".*"type":"hostagent.v1.ErrorDetail"`)
	c.says("ReadFile", `{"sandboxId": "one", "path": "srv/f"}`, `^400 .*"code":"invalid_argument".*"type":"hostagent.v1.ErrorDetail"`)
	c.says("ListSandboxes", `{"autoPausedUntil": {}}`, `^400 .*"code":"invalid_argument"`)
	piece := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	const pieces = 5
	messages := []string{writeMeta}
	for range pieces {
		messages = append(messages, writeChunk(piece))
	}
	if answers, end := c.streams("WriteFileStream", messages...); !slices.Equal(answers, []string{"{}"}) || end != "{}" {
		c.t.Errorf("%q, %s", answers, end)
	}
	c.reads(bytes.Repeat(piece, pieces))
	if answers, end := c.streams("ExecStream", `{"sandboxId": "one", "cmd": "sh", "args": ["-c", "echo $$; exit 9"]}`); len(answers) != 3 ||
		!strings.Contains(answers[0], `"pid":`) || !strings.Contains(answers[1], `"stdout":`) || !strings.Contains(answers[2], `"exitCode":9`) || end != "{}" {
		c.t.Errorf("%q, %s", answers, end)
	}
	notFound := regexp.MustCompile(`"code":"not_found".*"type":"hostagent.v1.ErrorDetail"`)
	if answers, end := c.streams("ReadFileStream", `{"sandboxId": "one", "path": "/srv/none"}`); len(answers) != 0 || !notFound.MatchString(end) {
		c.t.Errorf("%q, %s", answers, end)
	}
	c.types()
	c.says("WriteFile", `{"sandboxId": "one", "path": "/srv/s", "content": "b2xk"}`, `^200 \{\}`)
	half := envelope(writeMeta) + envelope(writeChunk([]byte("new")))
	if answers, end := c.sends("WriteFileStream", half+envelope(writeChunk(piece))[:1000]); len(answers) != 0 || !strings.Contains(end, `"error":`) {
		c.t.Errorf("half a message: %q, %s", answers, end)
	}
	c.reads([]byte("old"))
	c.cut(half)
	c.reads([]byte("old"))
	c.says("Exec", `{"sandboxId": "one", "cmd": "sh", "args": ["-c", "echo $(ls -A /srv); rm -r /srv/*"]}`, `^200 .*"stdout":"`+base64.StdEncoding.EncodeToString([]byte("f s\n")))
}

const writeMeta = `{"meta": {"sandboxId": "one", "path": "/srv/s"}}`

func writeChunk(b []byte) string {
	return `{"chunk": "` + base64.StdEncoding.EncodeToString(b) + `"}`
}

// cut kills a client that is sending a file, after a complete message. Then it waits until the host
// agent has ended the call.
func (c hostCurl) cut(sent string) {
	c.t.Helper()
	from, to := io.Pipe()
	cmd := c.curl("application/connect+json", "WriteFileStream", "-X", "POST", "-T", "-")
	cmd.Stdin = from
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(to, sent); err != nil {
		c.t.Fatal(err)
	}
	c.until("\npyro_host_calls_open 1\n")
	whole := regexp.MustCompile(`_count\{method="WriteFileStream",code="ok"\} .*`)
	before := whole.FindString(c.shown())
	cmd.Process.Kill()
	to.Close()
	if err := cmd.Wait(); err == nil {
		c.t.Error("the command ended before it was killed")
	}
	c.until("\npyro_host_calls_open 0\n")
	if after := whole.FindString(c.shown()); before == "" || after != before {
		c.t.Errorf("got success for a truncated transfer: %s, and %s", before, after)
	}
}

// shown returns the current text of the metrics.
func (c hostCurl) shown() string {
	c.t.Helper()
	r, err := http.Get(c.metrics)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// until waits until the metrics contain a line.
func (c hostCurl) until(line string) {
	c.t.Helper()
	testenv.Eventually(c.t, "the output contains the line "+line, func() bool { return strings.Contains(c.shown(), line) })
}

// types reads the output of a terminal with one call, and writes its input with other calls.
func (c hostCurl) types() {
	c.t.Helper()
	cmd := c.curl("application/connect+json", "PtyAttach", "-N", "--data-binary", "@-")
	cmd.Stdin = strings.NewReader(envelope(`{"sandboxId": "one", "tag": "t", "cmd": "cat"}`))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	seen, typed := "", 0
	var exited string
	for {
		flags, message, err := open(out)
		if err != nil {
			c.t.Fatalf("after %q: %v", seen, err)
		}
		if flags != 0 {
			break
		}
		var e struct {
			Output struct{ Data []byte }
			Exited json.RawMessage
		}
		if err := json.Unmarshal([]byte(message), &e); err != nil {
			c.t.Fatalf("%s: %v", message, err)
		}
		seen, exited = seen+string(e.Output.Data), string(e.Exited)
		switch {
		case typed == 0:
			typed++
			c.says("PtySendInput", `{"sandboxId": "one", "tag": "t", "data": "aGkK"}`, `^200 \{\}`)
		case typed == 1 && seen == "hi\r\nhi\r\n":
			typed++
			c.says("PtyKill", `{"sandboxId": "one", "tag": "t"}`, `^200 \{\}`)
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(exited, `"exitCode":137`) {
		c.t.Errorf("it ended with %s, %v", exited, err)
	}
}

// reads checks the content of the file that was written in pieces.
func (c hostCurl) reads(want []byte) {
	c.t.Helper()
	answers, end := c.streams("ReadFileStream", `{"sandboxId": "one", "path": "/srv/s"}`)
	var got []byte
	for _, a := range answers {
		var m struct{ Chunk []byte }
		if err := json.Unmarshal([]byte(a), &m); err != nil {
			c.t.Fatal(err)
		}
		got = append(got, m.Chunk...)
	}
	if !bytes.Equal(got, want) || end != "{}" {
		c.t.Errorf("the file has %d bytes, %.20q: %s", len(got), got, end)
	}
}

// says makes a unary call. The text of its status and response must match want.
func (c hostCurl) says(method, request, want string) {
	c.t.Helper()
	cmd := c.curl("application/json", method, "--data-binary", "@-", "-w", "\n%{http_code} %{http_version}")
	cmd.Stdin = strings.NewReader(request)
	out, err := cmd.Output()
	at := bytes.LastIndexByte(out, '\n')
	if err != nil || at < 0 {
		c.t.Fatalf("%v: %v %s", cmd, err, out)
	}
	status, ok := strings.CutSuffix(string(out[at+1:]), " 1.1")
	var compact bytes.Buffer // compares without white space, which is not specified
	if err := json.Compact(&compact, out[:at]); err != nil {
		c.t.Fatalf("%s: %s: %v", method, out, err)
	}
	if got := status + " " + compact.String(); !ok || !regexp.MustCompile(want).MatchString(got) {
		c.t.Errorf("%s: %s, want %s", method, got, want)
	}
}

// streams makes a streaming call. It returns the messages in the response, and the end of the
// stream.
func (c hostCurl) streams(method string, requests ...string) (answers []string, end string) {
	c.t.Helper()
	var body strings.Builder
	for _, r := range requests {
		body.WriteString(envelope(r))
	}
	return c.sends(method, body.String())
}

// sends is like streams, but it sends raw bytes with chunked encoding.
func (c hostCurl) sends(method, body string) (answers []string, end string) {
	c.t.Helper()
	cmd := c.curl("application/connect+json", method, "-H", "Transfer-Encoding: chunked", "--data-binary", "@-")
	cmd.Stdin = strings.NewReader(body)
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%v: %v", cmd, err)
	}
	for from := bytes.NewReader(out); ; {
		flags, message, err := open(from)
		switch {
		case err != nil:
			c.t.Fatalf("%s: after %d answers: %v", method, len(answers), err)
		case flags == 2 && from.Len() == 0:
			return answers, message
		case flags != 0:
			c.t.Fatalf("%s: an answer has the flags %d", method, flags)
		}
		answers = append(answers, message)
	}
}

func (c hostCurl) curl(kind, method string, flags ...string) *exec.Cmd {
	at := fmt.Sprintf("%s/hostagent.v1.HostAgentService/%s", c.address, method)
	return exec.CommandContext(c.t.Context(), "curl", slices.Concat([]string{"-sS", "--http1.1", "-H", "Content-Type: " + kind}, c.flags, flags, []string{at})...)
}

// envelope encodes one message of a Connect stream.
func envelope(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// open decodes one message of a Connect stream.
func open(from io.Reader) (flags byte, message string, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, "", err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(from, text); err != nil {
		return 0, "", err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return head[0], compact.String(), err
}
