package socket

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestWhileRead checks that the context lasts exactly as long as a reader exists.
func TestWhileRead(t *testing.T) {
	pipe := func(t *testing.T) (reader, writer *os.File) {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return reader, writer
	}
	sockets := func(t *testing.T) (reader, writer *os.File) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		reader, writer = os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer")
		unix.Shutdown(fds[0], unix.SHUT_WR) // the peer no longer sends, but it still reads
		return reader, writer
	}
	for name, open := range map[string]func(*testing.T) (reader, writer *os.File){"pipe": pipe, "socket": sockets} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			reader, writer := open(t)
			defer writer.Close()
			ctx, stop := WhileRead(t.Context(), writer, time.Hour)
			defer stop()
			select {
			case <-ctx.Done():
				t.Fatal("it ended while there was a reader")
			case <-time.After(50 * time.Millisecond):
			}
			reader.Close()
			await(t, ctx)
			if ctx.Err() != context.Canceled {
				t.Error(ctx.Err())
			}
		})
	}

	t.Run("stop", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		reader, writer := pipe(t)
		defer reader.Close()
		ctx, stop := WhileRead(t.Context(), writer, time.Hour)
		stop()
		await(t, ctx)
		writer.Close()
		if b, err := io.ReadAll(reader); err != nil || len(b) > 0 { // it has no other writer
			t.Errorf("%q, %v", b, err)
		}
	})

	t.Run("patience", func(t *testing.T) {
		file, err := os.Create(t.TempDir() + "/output")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for _, out := range []io.Writer{file, io.Discard} {
			ctx, stop := WhileRead(t.Context(), out, 50*time.Millisecond)
			await(t, ctx)
			if ctx.Err() != context.DeadlineExceeded {
				t.Errorf("%T: %v", out, ctx.Err())
			}
			stop()
		}
	})
}

func await(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the context has not ended")
	}
}
