package link

import (
	"context"
	"crypto/rand"
	"net"
	"time"
)

// Stream is the host's side of a stream that carries one session after another. It stores the
// unsent rest of a truncated record and sends it before the next session. Otherwise the guest would
// read bytes of the next session as this rest.
type Stream struct {
	net.Conn
	unsent []byte
}

// NewStream returns a stream. The connection must support deadlines and must not have another
// reader.
func NewStream(conn net.Conn) *Stream { return &Stream{Conn: conn} }

// sendRest sends the rest of a truncated record.
func (s *Stream) sendRest() error {
	if len(s.unsent) == 0 {
		return nil
	}
	n, err := s.Write(s.unsent)
	s.unsent = s.unsent[n:]
	return err
}

// Open opens a session from the host's side. It returns when the guest has answered, or when ctx
// ends. Closing the session does not close the stream.
func Open(ctx context.Context, stream *Stream) (net.Conn, error) {
	var n nonce
	rand.Read(n[:])
	s := &session{stream: stream, host: stream, r: newReader(stream), nonce: n}
	if err := stream.SetDeadline(time.Time{}); err != nil {
		return nil, err // without deadlines, Open could not interrupt a read or write
	}
	cancelled := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		stream.SetDeadline(time.Unix(1, 0))
		close(cancelled)
	})
	err := s.open()
	if !cancel() {
		<-cancelled // otherwise the new deadline could interrupt the next user of the stream
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

// open sends hello until the guest answers, and then starts the session. When open returns, no
// write is in flight.
func (s *session) open() error {
	answered := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		if err := s.host.sendRest(); err != nil {
			sent <- err
			return
		}
		for i := 1; ; i++ {
			message := controlRecord(hello, s.nonce)
			if i%paddingEvery == 0 {
				// If the guest has received only a part of a record, it needs the rest before it
				// can receive the hello.
				message = append(make([]byte, MaxRecord), message...)
			}
			if _, err := s.stream.Write(message); err != nil {
				sent <- err
				return
			}
			select {
			case <-answered:
				sent <- nil
				return
			case <-time.After(helloInterval):
			}
		}
	}()
	err := s.expect(welcome)
	close(answered)
	if err != nil {
		s.stream.SetWriteDeadline(time.Unix(1, 0)) // interrupts a hello that blocks
		<-sent
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	if _, err := s.stream.Write(controlRecord(start, s.nonce)); err != nil {
		return err
	}
	return s.expect(started)
}

// expect reads until it finds a control record of the wanted kind for this session.
func (s *session) expect(want kind) error {
	for {
		k, n, err := nextControl(s.r)
		if err != nil {
			return err
		}
		if k == want && n == s.nonce {
			return nil
		}
	}
}
