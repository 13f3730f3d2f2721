package program

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

// sharedEnv is set to the path of a log if this program must write numbered lines to it until it is
// killed.
const sharedEnv = "PYRO_TRANSCRIPT_TEST_WRITE"

func shared(t testing.TB, limit int64) (writer, reader *SharedLog) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	writer, err := CreateSharedLog(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	reader, err = OpenSharedLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { writer.Close(); reader.Close() })
	return writer, reader
}

func take(t testing.TB, l *SharedLog, chars int) Piece {
	t.Helper()
	p, err := l.Take(chars)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSharedLikeLog(t *testing.T) {
	w, r := shared(t, 10)
	log := NewLog(10)
	for _, text := range []string{"", "0123", "日本", "45678901234567890123456789", "é", "x", "\xe6\x97", "\xa5", "\xe6"} {
		w.Write([]byte(text))
		write(log, text)
		for cursor := int64(-1); cursor < log.Len()+2; cursor++ {
			for _, chars := range []int{1, 3, 100} {
				got, err := r.Read(cursor, chars)
				want := log.Read(cursor, chars)
				if log.Len() > 10 { // a Log can keep more than the shared log
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

// TestReadOvertakenLog reads the start of a log that a writer overwrites completely again and
// again. Each read must return some of the kept bytes.
func TestReadOvertakenLog(t *testing.T) {
	w, r := shared(t, 1000)
	block := bytes.Repeat([]byte("0123456789"), 350)
	w.Write(block)
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.Write(block)
			}
		}
	})
	for range 20_000 {
		p, err := r.Read(0, 2000)
		if err != nil || len(p.Data) == 0 || p.Dropped != p.From || int64(p.Data[0]-'0') != p.From%10 {
			t.Errorf("%+v, %v", p, err)
			break
		}
	}
	close(stop)
	writing.Wait()
}

// TestTake checks concurrent readers with slow and fast writers. Each byte must be taken by exactly
// one reader or be reported as dropped.
func TestTake(t *testing.T) {
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
				t.Fatalf("no reader got the byte at %d", next)
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
			t.Error("they took nothing")
		}
	}
}

// TestKilledWriter checks that a log can be read up to its end after the writer was killed.
func TestKilledWriter(t *testing.T) {
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
		r, err := OpenSharedLog(path)
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
	l, err := CreateSharedLog(path, 10_000)
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

func TestOpenSharedInvalid(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"empty": nil, "short": make([]byte, 4096), "other": bytes.Repeat([]byte("x"), 5000)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenSharedLog(path); err == nil {
			l.Close()
			t.Errorf("%s was accepted as a log", name)
		}
		if _, err := CreateSharedLog(path, 1); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s is overwritten: %v", name, err)
		}
	}
	for _, limit := range []int64{-1, 0, sharedMost + 1} {
		if _, err := CreateSharedLog(filepath.Join(dir, "new"), limit); err == nil {
			t.Errorf("a limit of %d", limit)
		}
	}
	if _, err := OpenSharedLog(dir); err == nil {
		t.Error("a folder was opened")
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
