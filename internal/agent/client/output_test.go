package client

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/program"
)

func TestOutput(t *testing.T) {
	c := dial(t, startAgent(t))
	if got := run(t, c, sh("echo a; echo b >&2; echo c; echo d >&2"), nil); got.out != "a\nc\n" || got.errs != "b\nd\n" {
		t.Errorf("%+v", got)
	}
	data := make([]byte, 1<<20)
	rand.New(rand.NewSource(2)).Read(data)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, program.Command{Argv: []string{"cat", file}}, nil); got.out != string(data) {
		t.Errorf("binary output: got %d bytes, which differ from the written ones", len(got.out))
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The command ends only after its first output has arrived.
	_, err := c.Exec(within(t), sh("echo now; cat "+fifo), program.Attach{Stdout: writerFunc(func(p []byte) (int, error) {
		return len(p), os.WriteFile(fifo, nil, 0)
	})})
	if err != nil {
		t.Errorf("the first output does not arrive while the command runs: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// slow is a slow writer that computes a hash of its data.
type slow struct {
	hash.Hash
	n    int
	each time.Duration
}

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(s.each)
	s.n += len(p)
	return s.Hash.Write(p)
}

// peakOf returns the peak resident set size of the agent, in KiB.
func peakOf(t *testing.T, c *Client) (kib int) {
	t.Helper()
	got := run(t, c, sh("cat /proc/$PPID/status"), nil)
	_, after, ok := strings.Cut(got.out, "VmHWM:")
	if !ok {
		t.Fatalf("no VmHWM in %q", got.out)
	}
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func TestSlowReader(t *testing.T) {
	c := dial(t, startAgent(t))
	before := peakOf(t, c)
	const size = 64 << 20
	script := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf end; head -c 300000 /dev/zero >&2", size)
	out, errs := &slow{Hash: sha256.New(), each: time.Millisecond}, &slow{Hash: sha256.New()}
	exit, err := c.Exec(within(t), sh(script), program.Attach{Stdout: out, Stderr: errs})
	if err != nil || exit.Code != 0 || exit.OutputHeld {
		t.Fatalf("%+v, %v", exit, err)
	}
	want := sha256.New()
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range size / len(block) {
		want.Write(block)
	}
	want.Write([]byte("end"))
	if out.n != size+3 || errs.n != 300_000 || !bytes.Equal(out.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes of output, %d of errors arrived", out.n, errs.n)
	}
	// An agent that kept the whole output would grow by 64 MiB or more. The agent grows by 7 MiB.
	// With the race detector, which keeps freed memory for longer, it grows by 38 MiB.
	if grown := peakOf(t, c) - before; grown > 56<<10 {
		t.Errorf("the agent grew by %d KiB", grown)
	}
}

// TestOutputAfterExit checks that output from before the exit arrives, even if the client reads it
// much later. OutputHeld must then be false.
func TestOutputAfterExit(t *testing.T) {
	c := dial(t, startAgent(t))
	const size = 1<<20 + 1<<16 + 3<<10 // more than the output buffer and a pipe can store together
	total := 0
	out := writerFunc(func(p []byte) (int, error) {
		if total == 0 {
			time.Sleep(500 * time.Millisecond) // the buffer stays full for longer than heldPatience
		}
		total += len(p)
		return len(p), nil
	})
	exit, err := c.Exec(within(t), sh(fmt.Sprintf("head -c %d /dev/zero", size)), program.Attach{Stdout: out})
	if err != nil || total != size || exit.OutputHeld {
		t.Errorf("%d of %d bytes, %+v, %v", total, size, exit, err)
	}
}

func TestHeldOutput(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, tty := range map[string]*program.Terminal{"pipe": nil, "terminal": {Cols: 80, Rows: 24}} {
		file := filepath.Join(t.TempDir(), "alive")
		begin := filepath.Join(t.TempDir(), "begin")
		if err := unix.Mkfifo(begin, 0o600); err != nil {
			t.Fatal(err)
		}
		// After the command has ended, its child writes more than fits into a pipe.
		command := sh("trap '' HUP; (read x <" + begin + "; head -c 200000 /dev/zero | tr '\\0' 'x'; echo fine > " + file + ") & echo started")
		command.TTY = tty
		got := run(t, c, command, nil)
		if err := os.WriteFile(begin, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		if !got.OutputHeld || got.Code != 0 || strings.TrimSpace(got.out) != "started" {
			t.Errorf("%s: %+v", name, got)
		}
		gone(t, mark)
		if b, _ := os.ReadFile(file); string(b) != "fine\n" {
			t.Errorf("%s: output of the child: got %q", name, b)
		}
	}
}
