package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// session is one side of a session.
type session struct {
	stream net.Conn
	host   *Stream // the same stream, but nil on the guest's side
	r      *bufio.Reader
	nonce  nonce
	done   chan *session // receives the session on Close; nil on the host's side

	read     sync.Mutex // locked during Read
	left     int        // unread bytes of the current record
	readErr  error      // error that all further Reads return
	newHello *nonce     // nonce of the hello that ended this session

	write    sync.Mutex // locked during Write
	buffer   [portWrite]byte
	writeErr error // error that all further Writes return

	state  sync.Mutex // guards the deadlines, which belong to the next session after Close
	closed bool
}

// Read reads data of the session. It returns io.EOF after the other side has closed the session.
func (s *session) Read(p []byte) (int, error) {
	s.read.Lock()
	defer s.read.Unlock()
	if s.readErr != nil {
		return 0, s.readErr
	}
	for s.left == 0 {
		if err := s.nextRecord(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.readErr = err
			}
			return 0, err
		}
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// nextRecord reads the header of the next data record.
func (s *session) nextRecord() error {
	b, err := s.r.Peek(lengthSize)
	if err != nil {
		return err
	}
	if [4]byte(b) != magic {
		length := binary.LittleEndian.Uint32(b)
		if length == 0 || length > MaxRecord {
			return ErrLost
		}
		s.r.Discard(lengthSize)
		s.left = int(length)
		return nil
	}
	k, n, known, err := readControl(s.r)
	switch {
	case err != nil:
		return err
	case !known:
		return ErrLost
	case k == bye && n == s.nonce:
		return io.EOF
	case k == hello && s.done != nil && n != s.nonce:
		s.newHello = &n
		return io.EOF
	default:
		return nil // a repeated record of this session's handshake
	}
}

// Write sends p in records of at most MaxRecord bytes.
func (s *session) Write(p []byte) (sent int, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	for len(p) > 0 {
		if s.writeErr != nil {
			return sent, s.writeErr
		}
		n := min(len(p), MaxRecord)
		first := copy(s.buffer[lengthSize:], p[:n])
		binary.LittleEndian.PutUint32(s.buffer[:], uint32(n))
		out, err := s.stream.Write(s.buffer[:lengthSize+first])
		if err == nil && first < n {
			out, err = s.stream.Write(p[first:n]) // not copied, because large records contain file content
			out += lengthSize + first
		}
		if err != nil {
			s.writeErr = err // the record might be truncated, so nothing else can follow it
			if s.host != nil && out > 0 {
				record := append(s.buffer[:lengthSize+first:lengthSize+first], p[first:n]...)
				s.host.unsent = record[out:]
			}
			return sent, err
		}
		p = p[n:]
		sent += n
	}
	return sent, nil
}

// Close ends the session and unblocks Read and Write. The stream stays open for the next session.
// Close is idempotent.
func (s *session) Close() error {
	s.state.Lock()
	if s.closed {
		s.state.Unlock()
		return nil
	}
	s.closed = true
	s.stream.SetReadDeadline(time.Unix(1, 0))
	// A blocked write gets some time to complete its record. Otherwise the other side would read
	// bytes of the next session as the rest of this record.
	s.stream.SetWriteDeadline(time.Now().Add(byeTimeout))
	s.state.Unlock()

	// The deadlines stop a running Read immediately and a running Write after byeTimeout. Later
	// calls fail.
	s.read.Lock()
	s.readErr = net.ErrClosed
	s.read.Unlock()
	s.write.Lock()
	if s.writeErr == nil {
		s.stream.Write(controlRecord(bye, s.nonce))
	}
	s.writeErr = net.ErrClosed
	s.write.Unlock()
	if s.done != nil {
		s.done <- s
	}
	return nil
}

// deadline sets a deadline of the stream, but only while this session owns the stream.
func (s *session) deadline(set func(time.Time) error, t time.Time) error {
	s.state.Lock()
	defer s.state.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return set(t)
}

func (s *session) LocalAddr() net.Addr               { return s.stream.LocalAddr() }
func (s *session) RemoteAddr() net.Addr              { return s.stream.RemoteAddr() }
func (s *session) SetDeadline(t time.Time) error     { return s.deadline(s.stream.SetDeadline, t) }
func (s *session) SetReadDeadline(t time.Time) error { return s.deadline(s.stream.SetReadDeadline, t) }
func (s *session) SetWriteDeadline(t time.Time) error {
	return s.deadline(s.stream.SetWriteDeadline, t)
}
