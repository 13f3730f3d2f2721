package mcp

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNonblocking checks that reading a pipe does not occupy a thread, and that the pipe's mode is
// restored afterwards. The mode of files, and of a pipe that is also the output, must not change.
func TestNonblocking(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_, out, err := os.Pipe() // both ends of a pipe have the same inode
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fd := r.Fd() // Fd makes the pipe blocking
	flags := func() int {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	before := flags()
	in, done := nonblocking(r, out)
	if in == io.Reader(r) || flags() != before|unix.O_NONBLOCK {
		t.Errorf("a pipe: %v, %#x", in, flags())
	}
	done()
	in, done = nonblocking(r, out)
	w.WriteString("text")
	text := make([]byte, 4)
	if _, err := io.ReadFull(in, text); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	done()
	if after := flags(); after != before {
		t.Errorf("got flags %#x, want %#x", after, before)
	}
	if in, done := nonblocking(r, r); in != io.Reader(r) {
		t.Error("the output pipe was changed")
	} else {
		done()
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if in, done := nonblocking(file, out); in != io.Reader(file) {
		t.Error("a file was changed")
	} else {
		done()
	}
}
