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

// session is one end of a session.
type session struct {
	stream net.Conn
	host   *Stream // the same, on the host's side
	r      *bufio.Reader
	nonce  nonce
	over   chan *session // told when it is closed, on the guest's side

	read    sync.Mutex // held by Read
	left    int        // of the record being read
	ended   error      // what every further Read gives
	helloed *nonce     // the session that the other end wants instead

	write  sync.Mutex // held by Write
	buffer [portWrite]byte
	gone   error // what every further Write gives

	state  sync.Mutex // held to set deadlines, which after Close belong to the next session
	closed bool
}

// Read gives data of the session. io.EOF: the other end has closed it.
func (s *session) Read(p []byte) (int, error) {
	s.read.Lock()
	defer s.read.Unlock()
	if s.ended != nil {
		return 0, s.ended
	}
	for s.left == 0 {
		if err := s.nextRecord(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.ended = err
			}
			return 0, err
		}
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// nextRecord reads up to the data of the next record.
func (s *session) nextRecord() error {
	b, err := s.r.Peek(lengthSize)
	if err != nil {
		return err
	}
	if [4]byte(b) != mark {
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
	case k == hello && s.over != nil && n != s.nonce:
		s.helloed = &n
		return io.EOF
	default:
		return nil // an echo of the session's own beginning
	}
}

// Write sends p in records.
func (s *session) Write(p []byte) (sent int, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	for len(p) > 0 {
		if s.gone != nil {
			return sent, s.gone
		}
		n := min(len(p), MaxRecord)
		first := copy(s.buffer[lengthSize:], p[:n])
		binary.LittleEndian.PutUint32(s.buffer[:], uint32(n))
		out, err := s.stream.Write(s.buffer[:lengthSize+first])
		if err == nil && first < n {
			out, err = s.stream.Write(p[first:n]) // not copied: records of this size are the content of files
			out += lengthSize + first
		}
		if err != nil {
			s.gone = err // a record may have been cut: nothing may follow it
			if s.host != nil && out > 0 {
				record := append(s.buffer[:lengthSize+first:lengthSize+first], p[first:n]...)
				s.host.owed = record[out:]
			}
			return sent, err
		}
		p = p[n:]
		sent += n
	}
	return sent, nil
}

// Close ends the session and unblocks its Read and Write. The stream stays open for the next. Idempotent.
func (s *session) Close() error {
	s.state.Lock()
	if s.closed {
		s.state.Unlock()
		return nil
	}
	s.closed = true
	s.stream.SetReadDeadline(time.Unix(1, 0))
	// A record that is being written is finished where the other end takes it: what a cut one lacked would be made up from what comes next.
	s.stream.SetWriteDeadline(time.Now().Add(byePatience))
	s.state.Unlock()

	// Whoever is in Read comes out now, whoever is in Write soon, and nobody gets in again.
	s.read.Lock()
	s.ended = net.ErrClosed
	s.read.Unlock()
	s.write.Lock()
	if s.gone == nil {
		s.stream.Write(control(bye, s.nonce))
	}
	s.gone = net.ErrClosed
	s.write.Unlock()
	if s.over != nil {
		s.over <- s
	}
	return nil
}

// deadline sets a deadline of the stream, as long as the stream is the session's.
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
