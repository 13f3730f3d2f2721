package link

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestTruncatedRecordIsCompleted closes a session in the middle of a record, while the guest does
// not read. It checks that the guest later gets the rest of this record before the data of the next
// session.
func TestTruncatedRecordIsCompleted(t *testing.T) {
	conn, guest := stream(t)
	host := NewStream(conn)
	l := Listen(guest)
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	accepted := make(chan io.ReadWriteCloser, 2)
	again := make(chan struct{})
	go func() {
		s, err := l.Accept()
		if err != nil {
			return
		}
		accepted <- s
		<-again
		if s, err = l.Accept(); err == nil {
			accepted <- s
		}
	}()
	first, err := Open(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte{0xab}, MaxRecord)
	wrote := make(chan error, 1)
	go func() {
		_, err := first.Write(data)
		wrote <- err
	}()
	theirs := <-accepted
	begun := make([]byte, 1) // then the write blocks in the middle of the record
	if _, err := io.ReadFull(theirs, begun); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := <-wrote; err == nil {
		t.Fatal("the stream took a whole record: the test cut no connection")
	}
	opened := make(chan error, 1)
	go func() {
		second, err := Open(ctx, host)
		if err == nil {
			defer second.Close()
			_, err = second.Write([]byte("second"))
		}
		opened <- err
	}()
	got, err := io.ReadAll(theirs)
	if got = append(begun, got...); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the session that was cut got %d bytes, %d of them its own, %v", len(got), bytes.Count(got, []byte{0xab}), err)
	}
	theirs.Close()
	close(again)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	next := <-accepted
	if got, err := io.ReadAll(next); string(got) != "second" || err != nil {
		t.Errorf("the next session got %q, %v", got, err)
	}
	next.Close()
}
