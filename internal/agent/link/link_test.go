package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream returns two connected sockets, as between QEMU and a host process.
func stream(t testing.TB) (host, guest net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "stream")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	t.Cleanup(func() { ends[0].Close(); ends[1].Close() })
	return ends[0], ends[1]
}

// echo serves sessions until the stream is closed. Each session returns its input.
func echo(t testing.TB, guest net.Conn) {
	l := Listen(guest)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			s, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(s, s)
			s.Close()
		}
	}()
	t.Cleanup(func() { guest.Close(); <-done })
}

func open(t testing.TB, host net.Conn) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	s, err := Open(ctx, NewStream(host))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func say(t testing.TB, s net.Conn, data []byte) {
	t.Helper()
	go s.Write(data)
	got := make([]byte, len(data))
	if _, err := io.ReadFull(s, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Fatal("received data differs from sent data")
	}
}

func TestSuccessiveSessions(t *testing.T) {
	host, guest := stream(t)
	echo(t, guest)
	for i := range 20 {
		s := open(t, host)
		say(t, s, bytes.Repeat([]byte{byte(i), 0xff, 'P', 'y', 0xff}, 1+i*10_000))
		s.Close()
		if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("write after close: %v", err)
		}
	}
}

func TestCloseUnblocksRead(t *testing.T) {
	host, guest := stream(t)
	echo(t, guest)
	s := open(t, host)
	read := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(10 * time.Millisecond)
	s.Close()
	if err := <-read; err == nil {
		t.Fatal("got no error from a read of a closed session")
	}
	s = open(t, host)
	say(t, s, []byte("again"))
	s.Close()
}

func TestStaleBytesAreDropped(t *testing.T) {
	host, guest := stream(t)
	echo(t, guest)
	s := open(t, host)
	// The session ends without bye, which simulates a crash of its owner. An answer is in flight,
	// and a record is truncated.
	go s.Write(bytes.Repeat([]byte("old"), 1000))
	time.Sleep(20 * time.Millisecond)
	host.Write([]byte{0xff, 0x7f, 0, 0, 'c', 'u', 't'})
	s = open(t, host)
	say(t, s, []byte("new"))
	s.Close()
}

func TestOpenEndsWithItsContext(t *testing.T) {
	host, guest := stream(t)
	go io.Copy(io.Discard, guest)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, NewStream(host)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestOpenFailsWhenTheStreamEnds(t *testing.T) {
	host, guest := stream(t)
	guest.Close()
	if _, err := Open(context.Background(), NewStream(host)); err == nil {
		t.Fatal("no error")
	}
}

// TestGarbage opens sessions on streams with junk in both directions. Some of the junk resembles
// records.
func TestGarbage(t *testing.T) {
	for seed := range testenv.Seeds(t, 40) {
		r := rand.New(rand.NewSource(int64(seed)))
		host, guest := stream(t)
		junk := func() []byte {
			var b []byte
			for range r.Intn(40) {
				switch r.Intn(4) {
				case 0:
					b = append(b, magic[:1+r.Intn(4)]...)
				case 1:
					var n nonce
					r.Read(n[:])
					c := controlRecord([]kind{hello, welcome, start, started, bye}[r.Intn(5)], n)
					b = append(b, c[:1+r.Intn(len(c))]...)
				default:
					c := make([]byte, r.Intn(2000))
					r.Read(c)
					b = append(b, c...)
				}
			}
			return b
		}
		host.Write(junk())
		guest.Write(junk())
		echo(t, guest)
		s := open(t, host)
		say(t, s, []byte("through"))
		s.Close()
		guest.Close()
	}
}

// FuzzHost sends arbitrary data from the guest to the host's side.
func FuzzHost(f *testing.F) {
	f.Add([]byte("\xffPy\xffwelc"), []byte{1, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, before, after []byte) {
		host, guest := stream(t)
		go func() {
			defer guest.Close()
			guest.Write(before)
			k, n, err := nextControl(newReader(guest))
			if err != nil || k != hello {
				return
			}
			guest.Write(controlRecord(welcome, n))
			guest.Write(controlRecord(started, n))
			guest.Write(after)
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		s, err := Open(ctx, NewStream(host))
		if err != nil {
			return
		}
		io.Copy(io.Discard, s)
		s.Close()
	})
}

// FuzzGuest sends arbitrary data to the guest's side.
func FuzzGuest(f *testing.F) {
	var n nonce
	f.Add(append(append(controlRecord(hello, n), controlRecord(start, n)...), 1, 0, 0, 0, 'x'))
	f.Fuzz(func(t *testing.T, input []byte) {
		host, guest := stream(t)
		go io.Copy(io.Discard, host)
		go func() {
			host.Write(input)
			host.(*net.UnixConn).CloseWrite()
		}()
		l := Listen(guest)
		for {
			s, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(io.Discard, s)
			s.Close()
		}
	})
}
