package mcp

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnthreaded reads from a pipe without a thread, leaves it as it was, and leaves alone what is none, or is the output too.
func TestUnthreaded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_, out, err := os.Pipe() // both ends of one pipe are the same file
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fd := r.Fd() // which makes it wait
	flags := func() int {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	before := flags()
	in, done := unthreaded(r, out)
	if in == io.Reader(r) || flags() != before|unix.O_NONBLOCK {
		t.Errorf("a pipe: %v, %#x", in, flags())
	}
	done()
	in, done = unthreaded(r, out)
	w.WriteString("text")
	text := make([]byte, 4)
	if _, err := io.ReadFull(in, text); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	done()
	if after := flags(); after != before {
		t.Errorf("it is left with %#x, and was %#x", after, before)
	}
	if in, done := unthreaded(r, r); in != io.Reader(r) {
		t.Error("what is the output too")
	} else {
		done()
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if in, done := unthreaded(file, out); in != io.Reader(file) {
		t.Error("a file")
	} else {
		done()
	}
}
