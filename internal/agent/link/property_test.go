package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// tape is what a session carries in one direction: its own bytes, made from a seed, so that a byte of another session shows.
func tape(seed int64, size int) []byte {
	b := make([]byte, size)
	rand.New(rand.NewSource(seed)).Read(b)
	// What looks like a control record must go through as data.
	for at := 0; at+controlSize < size; at += 5000 {
		copy(b[at:], control([]kind{hello, welcome, start, started, bye}[at/5000%5], nonce{byte(seed)}))
	}
	return b
}

// TestAnySessionAfterAnyOther opens session after session on one stream, each abandoned in a random way: closed, left without a word, cut within a record in
// either direction, with junk behind it. Every session must carry exactly its own bytes.
func TestAnySessionAfterAnyOther(t *testing.T) {
	for first := range testenv.Seeds(t, 12) {
		seed := int64(first)
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewSource(seed))
			host, guest := stream(t)
			guestRandom := rand.New(rand.NewSource(seed + 1000))
			done := make(chan struct{})
			go func() { // the guest sends back what it gets, and sometimes leaves by itself
				defer close(done)
				l := Listen(guest)
				for {
					s, err := l.Accept()
					if err != nil {
						return
					}
					leaves := guestRandom.Intn(5) == 0
					if leaves {
						io.CopyN(s, s, int64(guestRandom.Intn(100_000)))
					} else {
						io.Copy(s, s)
					}
					s.Close()
				}
			}()
			defer func() { guest.Close(); <-done }()
			for n := range 12 {
				s := open(t, host)
				sent := tape(seed*100+int64(n), 1+random.Intn(300_000))
				var writing sync.WaitGroup
				writing.Go(func() { s.Write(sent) })
				got := make([]byte, random.Intn(len(sent)+1))
				k, err := io.ReadFull(s, got)
				if !bytes.Equal(got[:k], sent[:k]) {
					t.Fatalf("session %d: what came back is not what was sent", n)
				}
				if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("session %d: %v", n, err)
				}
				abandon(s.(*session), host, random)
				writing.Wait()
			}
		})
	}
}

// abandon leaves a session in one of the ways in which its owner can: with a word, without, or within a record, with junk behind it.
func abandon(s *session, host net.Conn, random *rand.Rand) {
	if random.Intn(2) == 0 {
		s.Close()
		return
	}
	// The owner dies: what it was writing is cut where it is.
	s.state.Lock()
	s.closed = true
	s.state.Unlock()
	host.SetDeadline(time.Unix(1, 0))
	s.read.Lock()
	s.ended = net.ErrClosed
	s.read.Unlock()
	s.write.Lock()
	s.gone = net.ErrClosed
	s.write.Unlock()
	host.SetDeadline(time.Now().Add(50 * time.Millisecond))
	switch random.Intn(3) {
	case 0:
		host.Write([]byte{byte(random.Intn(256)), 0x7f, 0, 0, 'c', 'u', 't'}) // the head of a long record
	case 1:
		junk := make([]byte, random.Intn(3000))
		random.Read(junk)
		host.Write(junk)
	}
}

// TestOpenLeavesNothing: an Open that fails, here since the guest talks nonsense and does not listen, leaves no writer behind: what it would still write belongs
// to nobody.
func TestOpenLeavesNothing(t *testing.T) {
	host, guest := stream(t)
	fill(host)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := guest.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}()
	defer func() { guest.Close(); <-done }()
	watched := &watch{Conn: host}
	if _, err := Open(context.Background(), NewStream(watched)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	if n := watched.writing.Load(); n != 0 {
		t.Fatalf("%d writes are under way", n)
	}
}

// fill writes until the stream takes no more.
func fill(host net.Conn) {
	host.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for {
		if _, err := host.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// watch knows how many writes are under way.
type watch struct {
	net.Conn
	writing atomic.Int32
}

func (w *watch) Write(p []byte) (int, error) {
	w.writing.Add(1)
	defer w.writing.Add(-1)
	return w.Conn.Write(p)
}

// TestOpenIsNotStruckLate: a context that ends as Open succeeds leaves the stream usable.
func TestOpenIsNotStruckLate(t *testing.T) {
	host, guest := stream(t)
	echo(t, guest)
	for i := range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*2*time.Microsecond)
		s, err := Open(ctx, NewStream(host))
		cancel()
		if err == nil {
			say(t, s, []byte("through"))
			s.Close()
		}
	}
	s := open(t, host)
	say(t, s, []byte("through"))
	s.Close()
}

// TestOpenOnAFullStream: nobody reads at the other end, and what the stream takes is used up.
func TestOpenOnAFullStream(t *testing.T) {
	host, _ := stream(t)
	fill(host)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, NewStream(host)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// TestEndlessJunkIsGivenUp: a guest that sends without end, and never what is waited for, is left after a bound.
func TestEndlessJunkIsGivenUp(t *testing.T) {
	host, guest := stream(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for junk := bytes.Repeat([]byte("junk\xff"), 50_000); ; {
			if _, err := guest.Write(junk); err != nil {
				return
			}
		}
	}()
	defer func() { guest.Close(); <-done }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := Open(ctx, NewStream(host)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Errorf("%d bytes were allocated for it", after.TotalAlloc-before.TotalAlloc)
	}
}

// TestWithoutDeadlines: a stream whose reads can't be interrupted is refused rather than waited for.
func TestWithoutDeadlines(t *testing.T) {
	if _, err := Open(context.Background(), NewStream(stubborn{})); !errors.Is(err, os.ErrNoDeadline) {
		t.Fatalf("got %v", err)
	}
}

type stubborn struct{ net.Conn }

func (stubborn) SetDeadline(time.Time) error { return os.ErrNoDeadline }
