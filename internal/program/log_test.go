package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(sharedEnv); path != "" {
		writeForEver(path)
	}
	goleak.VerifyTestMain(m)
}

func write(l *Log, text string) { l.Write([]byte(text)) }

func TestRead(t *testing.T) {
	random := testenv.Rand(t, 1)
	l := NewLog(1 << 16)
	var wrote, read bytes.Buffer
	cursor := int64(0)
	for range 5000 {
		piece := []byte(strings.Repeat("aé日💻\n", random.IntN(20)))
		piece = piece[:random.IntN(len(piece)+1)]
		wrote.Write(piece)
		l.Write(piece)
		p := l.Read(cursor, 1+random.IntN(300))
		if p.From != cursor || p.Dropped != 0 {
			t.Fatalf("%+v at %d", p, cursor)
		}
		read.Write(p.Data)
		cursor = p.Next
	}
	l.End()
	for p := (Piece{}); !p.Ended; {
		p = l.Read(cursor, 1000)
		if p.More == p.Ended {
			t.Fatalf("more: %v, ended: %v", p.More, p.Ended)
		}
		read.Write(p.Data)
		cursor = p.Next
	}
	if !bytes.Equal(wrote.Bytes(), read.Bytes()) {
		t.Errorf("%d bytes were read, %d written", read.Len(), wrote.Len())
	}
}

func TestCharactersAreNotSplit(t *testing.T) {
	l := NewLog(100)
	write(l, "a日\xe6\x97")
	p := l.Read(0, 10)
	if string(p.Data) != "a日" || p.Next != 4 || p.More || p.Ended {
		t.Errorf("%q, %+v", p.Data, p)
	}
	if p = l.Read(0, 1); string(p.Data) != "a" || !p.More {
		t.Errorf("%q, %+v", p.Data, p)
	}
	if p = l.Read(0, 2); string(p.Data) != "a日" || p.More {
		t.Errorf("%q, %+v", p.Data, p)
	}
	write(l, "\xa5")
	if p = l.Read(4, 10); string(p.Data) != "日" {
		t.Errorf("%q", p.Data)
	}
	write(l, "\xff\xfe\xe6")
	if p = l.Read(7, 10); string(p.Data) != "\xff\xfe" {
		t.Errorf("invalid UTF-8: got %q", p.Data)
	}
	l.End()
	if p = l.Read(9, 10); string(p.Data) != "\xe6" || !p.Ended {
		t.Errorf("at the end: %q, %+v", p.Data, p)
	}
}

func TestDropped(t *testing.T) {
	l := NewLog(10)
	write(l, "0123456789日本") // the kept part begins within the ASCII bytes
	p := l.Read(0, 100)
	if string(p.Data) != "6789日本" || p.From != 6 || p.Dropped != 6 || p.Next != 16 {
		t.Errorf("%q, %+v", p.Data, p)
	}
	write(l, "xxx日") // now the kept part begins within a character
	if p = l.Read(6, 100); string(p.Data) != "本xxx日" || p.From != 13 || p.Dropped != 7 {
		t.Errorf("%q, %+v", p.Data, p)
	}
	if p = l.Read(l.Len(), 100); len(p.Data) != 0 || p.Dropped != 0 || p.Next != l.Len() {
		t.Errorf("%+v", p)
	}
	if p = l.Read(1<<40, 100); len(p.Data) != 0 || p.Dropped != 0 || p.Next != l.Len() {
		t.Errorf("beyond the end: %+v", p)
	}
	if p = l.Read(-5, 1); p.From < 0 || p.Dropped != p.From {
		t.Errorf("before the beginning: %+v", p)
	}
	write(l, strings.Repeat("y", 1000))
	if p = l.Read(0, 100); string(p.Data) != "yyyyyyyyyy" || p.Next != l.Len() {
		t.Errorf("%q, %+v", p.Data, p)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(100)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			write(l, "x")
		}()
		if err := l.Wait(t.Context(), 0); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := l.Wait(t.Context(), 0); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			time.Sleep(time.Second)
			l.End()
		}()
		if err := l.Wait(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 300 * time.Millisecond
		l := NewLog(1000)
		took := func(much int) time.Duration {
			began := time.Now()
			if err := l.WaitIdle(t.Context(), 0, idle, much); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		if d := took(100); d != idle {
			t.Errorf("wait without output: got %v", d)
		}
		go func() {
			for range 10 {
				time.Sleep(200 * time.Millisecond)
				write(l, "x")
			}
		}()
		if d := took(100); d != 2*time.Second+idle {
			t.Errorf("wait during output: got %v", d)
		}
		if d := took(10); d != 0 {
			t.Errorf("with enough: %v", d)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := l.WaitIdle(short, 10, idle, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		l.End()
		if d := took(100); d != 0 {
			t.Errorf("at the end: %v", d)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	l := NewLog(1 << 20)
	piece := make([]byte, 32<<10)
	for range 1 << 15 { // 1 GiB
		l.Write(piece)
	}
	if kept := l.end() - l.start(); kept != 1<<20 || l.Len() != 1<<30 {
		t.Errorf("%d bytes are kept of %d", kept, l.Len())
	}
}

func BenchmarkWrite(b *testing.B) {
	l, piece := NewLog(4<<20), make([]byte, 32<<10)
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		l.Write(piece)
	}
}

// TestFirst checks that first returns the same as a simple implementation without fast paths.
func TestFirst(t *testing.T) {
	plain := func(data []byte, chars int, ended bool) []byte {
		n := 0
		for ; chars > 0 && n < len(data); chars-- {
			if !ended && !utf8.FullRune(data[n:]) {
				break
			}
			_, size := utf8.DecodeRune(data[n:])
			n += size
		}
		return data[:n]
	}
	random := testenv.Rand(t, 1)
	parts := []string{"a", "\n", "é", "日", "😀", "\xf0", "\xf0\x9f", "\xf0\x9f\x98", "\xe6\x97", "\x80", "\xff", "\xc3"}
	for range 20_000 {
		var data []byte
		for range random.IntN(6) {
			data = append(data, parts[random.IntN(len(parts))]...)
		}
		chars, ended := random.IntN(12), random.IntN(2) == 0
		if got, want := first(data, chars, ended), plain(data, chars, ended); string(got) != string(want) {
			t.Fatalf("%q, %d, %v: %q, not %q", data, chars, ended, got, want)
		}
	}
}

// TestReadRaw checks that raw reads can return incomplete characters.
func TestReadRaw(t *testing.T) {
	l := NewLog(10)
	write(l, "a日\xe6\x97")
	for _, c := range []struct {
		cursor      int64
		limit       int
		data        string
		from        int64
		dropped     int64
		more, ended bool
	}{
		{0, 3, "a\xe6\x97", 0, 0, true, false}, {3, 10, "\xa5\xe6\x97", 3, 0, false, false}, {6, 10, "", 6, 0, false, false}, {100, 10, "", 6, 0, false, false},
	} {
		if p := l.ReadRaw(c.cursor, c.limit); string(p.Data) != c.data || p.From != c.from || p.Dropped != c.dropped || p.More != c.more || p.Ended != c.ended || p.Next != c.from+int64(len(c.data)) {
			t.Errorf("at %d: %+v", c.cursor, p)
		}
	}
	write(l, "\xa50123456789")
	l.End()
	if p := l.ReadRaw(2, 5); string(p.Data) != "01234" || p.From != 7 || p.Dropped != 5 || !p.More || p.Ended {
		t.Errorf("read of dropped bytes: got %+v", p)
	}
	if p := l.ReadRaw(12, 5); string(p.Data) != "56789" || p.More || !p.Ended {
		t.Errorf("the end: %+v", p)
	}
}
