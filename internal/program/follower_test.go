package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func newFile(t *testing.T, limit int64) *LogFile {
	t.Helper()
	f, err := CreateLogFile(filepath.Join(t.TempDir(), "log"), limit)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func follow(t *testing.T, f *LogFile, lines int) *Follower {
	t.Helper()
	r, err := f.Follow(lines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestFollowerReportsDroppedBytes checks a follower that reads too slowly. Each byte must be read
// in order or be counted as dropped.
func TestFollowerReportsDroppedBytes(t *testing.T) {
	f := newFile(t, 100)
	r := follow(t, f, 0)
	var all bytes.Buffer
	at, gone := int64(0), int64(0)
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if i%50 < 25 { // do not read for a while
			continue
		}
		for reads := range i % 50 {
			data, dropped, err := r.Next(1 + reads)
			if err != nil {
				t.Fatal(err)
			}
			gone += dropped
			at += dropped
			if want := all.Bytes()[at : at+int64(len(data))]; !bytes.Equal(data, want) {
				t.Fatalf("at %d: %q, not %q", at, data, want)
			}
			at += int64(len(data))
		}
	}
	for {
		data, dropped, err := r.Next(7)
		if err != nil {
			t.Fatal(err)
		}
		if at += dropped + int64(len(data)); len(data) == 0 {
			break
		}
	}
	if at != int64(all.Len()) || gone == 0 || gone > at/2 {
		t.Errorf("it got to %d of %d, %d are gone", at, all.Len(), gone)
	}
}

func TestFollowLastLines(t *testing.T) {
	f := newFile(t, 100)
	for i := range 20 {
		fmt.Fprintf(f, "line %d\n", i)
	}
	for lines, want := range map[int]string{1: "line 19\n", 3: "line 17\nline 18\nline 19\n"} {
		if data, dropped, err := follow(t, f, lines).Next(1000); string(data) != want || dropped != 0 || err != nil {
			t.Errorf("%d lines: %q, %d, %v", lines, data, dropped, err)
		}
	}
	if data, dropped, err := follow(t, f, 0).Next(1000); len(data) == 0 || dropped == 0 || dropped+int64(len(data)) != f.end() || err != nil {
		t.Errorf("all: %d bytes, %d, %v", len(data), dropped, err)
	}
}

func TestFollowerChanged(t *testing.T) {
	f := newFile(t, 100)
	r := follow(t, f, 0)
	woken := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		case <-time.After(testenv.Patience):
			return false
		}
	}
	changed := r.Changed()
	select {
	case <-changed:
		t.Error("Changed fired without a change")
	default:
	}
	f.Write([]byte("x"))
	if !woken(changed) {
		t.Error("Changed did not fire after a write")
	}
	changed = r.Changed()
	f.Close()
	if !woken(changed) {
		t.Error("Changed did not fire after Close")
	}
}

// TestFollowerOfReplacedFile checks that a follower can still read a log that has been replaced.
func TestFollowerOfReplacedFile(t *testing.T) {
	f := newFile(t, 10)
	r := follow(t, f, 0)
	f.Write([]byte("0123456"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Follow(0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a log that has ended is followed: %v", err)
	}
	g, err := CreateLogFile(f.path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Write([]byte("abcdefg"))
	if data, _, err := r.Next(100); string(data) != "0123456" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestFollowResumedFile checks that a follower also reads the part of a log that an earlier writer
// wrote.
func TestFollowResumedFile(t *testing.T) {
	f := newFile(t, 10)
	f.Write([]byte("0123456789ab"))
	f.Close()
	g, err := ResumeLogFile(f.path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Write([]byte("cd"))
	if data, dropped, err := follow(t, g, 0).Next(100); string(data) != "56789abcd" || dropped != 5 || err != nil {
		t.Errorf("%q, %d, %v", data, dropped, err)
	}
}
