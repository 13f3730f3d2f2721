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

// tape returns the data of a session in one direction. Different seeds give different data, so that
// a test detects data of another session.
func tape(seed int64, size int) []byte {
	b := make([]byte, size)
	rand.New(rand.NewSource(seed)).Read(b)
	// The tape contains control records, which must arrive unchanged.
	for at := 0; at+controlSize < size; at += 5000 {
		copy(b[at:], controlRecord([]kind{hello, welcome, start, started, bye}[at/5000%5], nonce{byte(seed)}))
	}
	return b
}

// TestRandomSessions opens many sessions on one stream. Each session ends at random: it
// is closed, abandoned or truncated by either side. Then junk follows. The test checks that
// every session transfers exactly its own data.
func TestRandomSessions(t *testing.T) {
	for first := range testenv.Seeds(t, 12) {
		seed := int64(first)
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewSource(seed))
			host, guest := stream(t)
			guestRandom := rand.New(rand.NewSource(seed + 1000))
			done := make(chan struct{})
			go func() { // the guest echoes its input, and sometimes closes the session early
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
					t.Fatalf("session %d: received data differs from sent data", n)
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

// abandon ends a session in a random way: with Close, without any message, or in the middle of a
// record followed by junk.
func abandon(s *session, host net.Conn, random *rand.Rand) {
	if random.Intn(2) == 0 {
		s.Close()
		return
	}
	// Simulate an owner that crashes in the middle of a write.
	s.state.Lock()
	s.closed = true
	s.state.Unlock()
	host.SetDeadline(time.Unix(1, 0))
	s.read.Lock()
	s.readErr = net.ErrClosed
	s.read.Unlock()
	s.write.Lock()
	s.writeErr = net.ErrClosed
	s.write.Unlock()
	host.SetDeadline(time.Now().Add(50 * time.Millisecond))
	switch random.Intn(3) {
	case 0:
		host.Write([]byte{byte(random.Intn(256)), 0x7f, 0, 0, 'c', 'u', 't'}) // the start of a long record
	case 1:
		junk := make([]byte, random.Intn(3000))
		random.Read(junk)
		host.Write(junk)
	}
}

// TestFailedOpenWritesNothing checks that no write is in flight after Open has failed. The guest
// sends junk and does not read.
func TestFailedOpenWritesNothing(t *testing.T) {
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

// fill writes until the stream blocks.
func fill(host net.Conn) {
	host.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for {
		if _, err := host.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// watch counts the writes that are in flight.
type watch struct {
	net.Conn
	writing atomic.Int32
}

func (w *watch) Write(p []byte) (int, error) {
	w.writing.Add(1)
	defer w.writing.Add(-1)
	return w.Conn.Write(p)
}

// TestLateCancelAfterOpen checks that the stream stays usable if ctx ends just when Open succeeds.
func TestLateCancelAfterOpen(t *testing.T) {
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

// TestOpenOnFullStream checks that Open ends with its context if the stream's buffers are full and
// the guest does not read.
func TestOpenOnFullStream(t *testing.T) {
	host, _ := stream(t)
	fill(host)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, NewStream(host)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// TestEndlessJunkFails checks that Open fails if the guest sends endless junk.
func TestEndlessJunkFails(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	if _, err := Open(ctx, NewStream(host)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Errorf("%d bytes were allocated for it", after.TotalAlloc-before.TotalAlloc)
	}
}

// TestWithoutDeadlines checks that Open rejects a stream without deadlines.
func TestWithoutDeadlines(t *testing.T) {
	if _, err := Open(context.Background(), NewStream(stubborn{})); !errors.Is(err, os.ErrNoDeadline) {
		t.Fatalf("got %v", err)
	}
}

type stubborn struct{ net.Conn }

func (stubborn) SetDeadline(time.Time) error { return os.ErrNoDeadline }
