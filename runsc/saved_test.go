package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
)

// TestSavedFile reads parts of a file into another file: single parts, several parts with one call,
// parts that cross the end, and parts beyond the end. It also reads before the channel is closed.
func TestSavedFile(t *testing.T) {
	content := make([]byte, 300<<10)
	rand.Read(content)
	path := filepath.Join(t.TempDir(), "saved")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, begin := range []chan struct{}{nil, make(chan struct{})} {
		from, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f, err := openSaved(from, 64<<10, begin)
		if err != nil {
			t.Fatal(err)
		}
		to, err := os.Create(filepath.Join(t.TempDir(), "memory"))
		if err != nil {
			t.Fatal(err)
		}
		dst, err := f.RegisterDestinationFD(int32(to.Fd()), 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		end := int64(len(content))
		for _, c := range []struct {
			at    int64
			parts []memmap.FileRange
			err   error
		}{
			{0, []memmap.FileRange{{Start: 0, End: 64 << 10}}, nil},
			{12345, []memmap.FileRange{{Start: 512 << 10, End: 576 << 10}}, nil},
			{4096, []memmap.FileRange{{Start: 8192, End: 12288}, {Start: 4096, End: 8192}, {Start: 65536, End: 65537}}, nil},
			{end - 10, []memmap.FileRange{{Start: 100, End: 104}, {Start: 200, End: 300}, {Start: 300, End: 400}}, io.EOF},
			{end, []memmap.FileRange{{Start: 0, End: 1}}, io.EOF},
			{end + 1, []memmap.FileRange{{Start: 0, End: 1}}, io.EOF},
			{-1, []memmap.FileRange{{Start: 0, End: 1}}, io.EOF},
		} {
			if len(c.parts) == 1 {
				f.AddRead(7, c.at, dst, c.parts[0], nil)
			} else {
				f.AddReadv(7, c.at, 0, dst, c.parts, nil)
			}
			done, err := f.Wait(nil, 1)
			if err != nil || len(done) != 1 || done[0].ID != 7 || !errors.Is(done[0].Err, c.err) {
				t.Fatalf("%+v: %+v, %v", c, done, err)
			}
			at, left := c.at, done[0].N
			for _, part := range c.parts {
				n := min(part.Length(), left)
				got := make([]byte, n)
				if _, err := to.ReadAt(got, int64(part.Start)); n > 0 && (err != nil || !bytes.Equal(got, content[at:at+int64(n)])) {
					t.Errorf("%+v: other bytes in %v, %v", c, part, err)
				}
				at, left = at+int64(n), left-n
			}
			if want := max(min(end-c.at, length(c.parts)), 0); c.at >= 0 && int64(done[0].N) != want {
				t.Errorf("%+v: %d bytes were read, not %d", c, done[0].N, want)
			}
		}
		if again, err := f.Wait(nil, 0); err != nil || len(again) != 0 {
			t.Errorf("again: %v, %v", again, err)
		}
		if err := errors.Join(f.Close(), to.Close()); err != nil {
			t.Error(err)
		}
	}
}

func length(parts []memmap.FileRange) (n int64) {
	for _, p := range parts {
		n += int64(p.Length())
	}
	return n
}

var _ stateio.AsyncReader = (*savedFile)(nil)
