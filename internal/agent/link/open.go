package link

import (
	"context"
	"crypto/rand"
	"net"
	"time"
)

// Stream is the host's side of a stream, on which sessions are opened one after the other. It keeps what a session that was cut within a record owes of it: made
// up from what comes next, the rest would be taken for data.
type Stream struct {
	net.Conn
	owed []byte
}

// NewStream makes a Stream. The connection must have no other reader, and know deadlines.
func NewStream(conn net.Conn) *Stream { return &Stream{Conn: conn} }

// pay sends what is owed.
func (s *Stream) pay() error {
	if len(s.owed) == 0 {
		return nil
	}
	n, err := s.Write(s.owed)
	s.owed = s.owed[n:]
	return err
}

// Open opens a session from the host's side. It returns when the guest has answered, or with ctx. The session's Close ends the session and leaves the stream
// open.
func Open(ctx context.Context, stream *Stream) (net.Conn, error) {
	var n nonce
	rand.Read(n[:])
	s := &session{stream: stream, host: stream, r: newReader(stream), nonce: n}
	if err := stream.SetDeadline(time.Time{}); err != nil {
		return nil, err // without deadlines nothing could be interrupted
	}
	cancelled := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		stream.SetDeadline(time.Unix(1, 0))
		close(cancelled)
	})
	err := s.open()
	if !cancel() {
		<-cancelled // or it would strike the next user of the stream
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return s, nil
}

// open says hello until the guest answers, and starts the session. Nothing of it is under way when it returns.
func (s *session) open() error {
	heard := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		if err := s.host.pay(); err != nil {
			sent <- err
			return
		}
		for i := 1; ; i++ {
			message := control(hello, s.nonce)
			if i%fillEvery == 0 {
				// A guest that was left within a record takes what comes for the rest of it.
				message = append(make([]byte, MaxRecord), message...)
			}
			if _, err := s.stream.Write(message); err != nil {
				sent <- err
				return
			}
			select {
			case <-heard:
				sent <- nil
				return
			case <-time.After(helloEvery):
			}
		}
	}()
	err := s.expect(welcome)
	close(heard)
	if err != nil {
		s.stream.SetWriteDeadline(time.Unix(1, 0)) // a hello that nobody takes
		<-sent
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	if _, err := s.stream.Write(control(start, s.nonce)); err != nil {
		return err
	}
	return s.expect(started)
}

// expect reads until the guest's control record of a kind for this session.
func (s *session) expect(want kind) error {
	for {
		k, n, err := seek(s.r)
		if err != nil {
			return err
		}
		if k == want && n == s.nonce {
			return nil
		}
	}
}
