package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyro-mcp/pyro"
)

func TestProgressOnlyForLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progressLine{out: &out}
		p.report(pyro.Progress{Phase: "restoring"})
		time.Sleep(900 * time.Millisecond)
		p.stop()
		p.stop()
		if out.Len() > 0 {
			t.Errorf("said %q", &out)
		}
	})
}

func TestProgressInPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progressLine{out: &out}
		for i := range int64(50) { // takes 5 seconds
			p.report(pyro.Progress{Phase: "pulling layers", Subject: "alpine:3.20", Done: i * 1_000_000, Total: 50_000_000})
			time.Sleep(100 * time.Millisecond)
		}
		p.stop()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 4 || len(lines) > 5 || !strings.HasPrefix(lines[0], "[alpine:3.20] pulling layers ") || !strings.Contains(lines[0], "of 50 MB") {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}

func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progressLine{out: &out, terminal: true, width: 20}
		p.report(pyro.Progress{Phase: "a phase whose name is longer than the terminal is wide"})
		time.Sleep(2 * time.Second)
		p.stop()
		said := out.String()
		if strings.Contains(said, "\n") || !strings.HasSuffix(said, "\r\x1b[K") {
			t.Errorf("more than one line, or it was not cleared: %q", said)
		}
		for line := range strings.SplitSeq(said, "\r\x1b[K") {
			if len(line) > 19 {
				t.Errorf("%q is too long", line)
			}
		}
	})
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9_949: "9.9 kB", 9_960: "10 kB", 999_499: "999 kB", 999_999: "1.0 MB", 268_435_456: "268 MB", 17_179_869_184: "17 GB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) is %q, want %q", bytes, got, want)
		}
	}
}
