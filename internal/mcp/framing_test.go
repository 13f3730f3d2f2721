package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
)

func frame(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }

// framedAnswer reads one message with a header.
func framedAnswer(t *testing.T, from *bufio.Reader) map[string]any {
	t.Helper()
	header, err := textproto.NewReader(from).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(from, body); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return m
}

// TestFraming checks that the server frames its answers if the client frames its messages. That
// includes answers to invalid messages.
func TestFraming(t *testing.T) {
	w := newWorld(t)
	in, say := io.Pipe()
	hear, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- w.ServeStdio(t.Context(), in, out) }()
	answers := bufio.NewReader(hear)
	ask := func(text string) map[string]any {
		t.Helper()
		go io.WriteString(say, text)
		return framedAnswer(t, answers)
	}
	if a := ask("\r\n" + frame(initialize)); a["result"] == nil {
		t.Fatalf("%v", a)
	}
	pretty := "{\n \"jsonrpc\": \"2.0\",\n \"id\": 2,\n \"method\": \"tools/call\",\n \"params\": {\"name\": \"echo\", \"arguments\": {\"text\": \"ü\"}}\n}"
	if a := ask("content-type: application/vscode-jsonrpc; charset=utf-8\r\n" + frame(pretty)); a["result"] == nil || a["id"] != 2.0 {
		t.Errorf("%v", a)
	}
	for text, code := range map[string]float64{
		frame("{"): -32700, frame("no message"): -32700, frame("[]"): -32600, frame("7"): -32600,
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", MaxBody+1, strings.Repeat("x", MaxBody+1)): -32600,
	} {
		if a := ask(text); a["error"] == nil || a["error"].(map[string]any)["code"] != code {
			t.Errorf("%.60q: %v", text, a)
		}
		if a := ask(frame(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)); a["id"] != "p" {
			t.Fatalf("after %.60q: %v", text, a)
		}
	}
	if a := ask("Content-Length: x\r\n\r\n{}"); a["error"] == nil {
		t.Errorf("%v", a)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	for _, s := range []string{frame("{}"), frame("{\n}") + frame("7"), "Content-Length: 5\r\n\r\n{}", "Content-Length: -1\r\n\r\n", "c\n\n", "Content-Length: 99999999999999999999\n\n", "x: y\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		read := &frames{bufio.NewReader(bytes.NewReader(input))}
		for range len(input) + 2 {
			message, fits, err := read.next()
			if len(message) > len(input) && err == nil {
				t.Fatalf("%d bytes of %d", len(message), len(input))
			}
			if json.Valid(message) && bytes.ContainsAny(message, "\n\r") {
				t.Fatalf("%q is not on one line", message)
			}
			_ = fits
			if err != nil {
				return
			}
		}
		t.Fatal("it did not end")
	})
}
