package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sharedEnv has this program write numbered lines to a log, for ever.
const sharedEnv = "PYRO_TRANSCRIPT_TEST_WRITE"

func shared(t testing.TB, limit int64) (writer, reader *Shared) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	writer, err := CreateShared(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	reader, err = OpenShared(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { writer.Close(); reader.Close() })
	return writer, reader
}

func take(t testing.TB, l *Shared, chars int) Piece {
	t.Helper()
	p, err := l.Take(chars)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSharedIsAsALog(t *testing.T) {
	w, r := shared(t, 10)
	log := New(10)
	for _, text := range []string{"", "0123", "日本", "45678901234567890123456789", "é", "x", "\xe6\x97", "\xa5", "\xe6"} {
		w.Write([]byte(text))
		write(log, text)
		for cursor := int64(-1); cursor < log.Len()+2; cursor++ {
			for _, chars := range []int{1, 3, 100} {
				got, err := r.Read(cursor, chars)
				want := log.Read(cursor, chars)
				if log.Len() > 10 { // the one in memory may keep more
					if want.Next < r.Start() {
						continue
					}
				}
				if err != nil || got.From < want.From || got.Next != want.Next && want.From == got.From || got.Ended != want.Ended {
					t.Fatalf("after %q, at %d, %d chars: %+v, %v, not %+v", text, cursor, chars, got, err, want)
				}
			}
		}
	}
	w.End()
	if p, err := r.Read(r.Len()-1, 10); err != nil || string(p.Data) != "\xe6" || !p.Ended {
		t.Errorf("at the end: %+v, %v", p, err)
	}
}

// TestTakersShare has several take from a log that is written faster than it is read, or not: each byte is had by one of them, or told to be gone.
func TestTakersShare(t *testing.T) {
	for _, limit := range []int64{64 << 10, 1 << 20} {
		w, r := shared(t, limit)
		var mu sync.Mutex
		at := map[int64]Piece{}
		var takers sync.WaitGroup
		for range 3 {
			takers.Go(func() {
				for {
					p := take(t, r, 500)
					if len(p.Data) > 0 || p.Dropped > 0 {
						mu.Lock()
						at[p.From-p.Dropped] = p
						mu.Unlock()
					}
					if p.Ended {
						return
					}
				}
			})
		}
		for i := range 30_000 {
			fmt.Fprintf(w, "%06d日\n", i)
		}
		w.End()
		takers.Wait()
		had := 0
		for next := int64(0); next < w.Len(); {
			p, ok := at[next]
			if !ok {
				t.Fatalf("nobody had what is at %d", next)
			}
			for _, line := range strings.Split(string(p.Data), "\n") {
				if len(line) == 9 && !strings.HasSuffix(line, "日") {
					t.Fatalf("%q", line)
				}
			}
			for i, c := range p.Data {
				offset := p.From + int64(i)
				if want := fmt.Sprintf("%06d日\n", offset/10)[offset%10]; c != want {
					t.Fatalf("byte %d is %q, not %q", offset, c, want)
				}
			}
			had += len(p.Data)
			next = p.Next
		}
		if had == 0 {
			t.Error("they had nothing")
		}
	}
}

// TestWritersEnd has a log whose writer was killed be read to where it came.
func TestWritersEnd(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "log")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), sharedEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		r, err := OpenShared(path)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if r.Len() == 0 || r.Ended() {
			t.Errorf("%d bytes, ended: %t", r.Len(), r.Ended())
		}
		first := true
		for cursor := int64(0); cursor < r.Len(); {
			p, err := r.Read(cursor, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if p.From != cursor && !first {
				t.Fatalf("a gap at %d", cursor)
			}
			for i, c := range p.Data {
				offset := p.From + int64(i)
				if want := fmt.Sprintf("%09d\n", offset/10)[offset%10]; c != want {
					t.Fatalf("byte %d is %q, not %q", offset, c, want)
				}
			}
			cursor, first = p.Next, false
		}
		r.Close()
	}
}

func writeForEver(path string) {
	l, err := CreateShared(path, 10_000)
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		fmt.Fprintf(l, "%09d\n", i)
		if i == 100 {
			io.WriteString(os.Stdout, "\n")
		}
	}
}

func TestWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"empty": nil, "short": make([]byte, 4096), "other": bytes.Repeat([]byte("x"), 5000)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenShared(path); err == nil {
			l.Close()
			t.Errorf("%s is taken for one", name)
		}
		if _, err := CreateShared(path, 1); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s is overwritten: %v", name, err)
		}
	}
	for _, limit := range []int64{-1, 0, sharedMost + 1} {
		if _, err := CreateShared(filepath.Join(dir, "new"), limit); err == nil {
			t.Errorf("a limit of %d", limit)
		}
	}
	if _, err := OpenShared(dir); err == nil {
		t.Error("a folder is taken for one")
	}
}

func BenchmarkShared(b *testing.B) {
	w, _ := shared(b, 1<<20)
	chunk := make([]byte, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		w.Write(chunk)
	}
}
