// Package link makes sessions on one byte stream that has no connection boundaries, such as a virtio-serial port: what an earlier session left in the
// pipe, in either direction, must not reach the next, and the end of a session must not end the stream.
//
// On the wire are records. A data record is its length in 4 bytes, little endian, 1 to [MaxRecord], and as many bytes. A control record is 4 bytes that no
// length can have, 4 that tell its kind, and a nonce of 16 bytes that names the session. The host opens a session by sending hello, again and again,
// until the guest answers it with welcome; then it sends start, followed by data. The guest answers start with started, followed by data. So each end
// knows where the session's data begins, however many hellos and welcomes are under way, and drops all that came before. A hello in the
// middle of a session ends it and opens another; bye ends it.
package link

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// MaxRecord bounds the data of one record.
const MaxRecord = 1 << 20

// portWrite is what a virtio-serial port takes in one write. The length of a record and the begin of its data go in one.
const portWrite = 32 << 10

const (
	lengthSize  = 4
	nonceSize   = 16
	controlSize = 8 + nonceSize
	// helloEvery is how often the host says hello until it is heard.
	helloEvery = 100 * time.Millisecond
	// fillEvery is after how many of them it fills up what could be the rest of a record before the next.
	fillEvery = 5
	// byePatience bounds the wait for room to say bye in.
	byePatience = time.Second
	// maxSkipped bounds what an end reads without finding what it looks for.
	maxSkipped = 64 << 20
)

// mark begins every control record. As a length it is beyond MaxRecord.
var mark = [4]byte{0xff, 'P', 'y', 0xff}

type kind [4]byte

var (
	hello   = kind{'h', 'e', 'l', 'o'}
	welcome = kind{'w', 'e', 'l', 'c'}
	start   = kind{'s', 't', 'r', 't'}
	started = kind{'s', 't', 'd', 'd'}
	bye     = kind{'b', 'y', 'e', 0}
)

type nonce [nonceSize]byte

// ErrLost says that the other end left the session or the stream carries something else.
var ErrLost = errors.New("the link was lost")

func control(k kind, n nonce) []byte {
	b := make([]byte, 0, controlSize)
	b = append(b, mark[:]...)
	b = append(b, k[:]...)
	return append(b, n[:]...)
}

// seek reads until a control record, dropping everything before it.
func seek(r *bufio.Reader) (kind, nonce, error) {
	for skipped := 0; skipped < maxSkipped; {
		b, err := r.Peek(len(mark))
		if err != nil {
			return kind{}, nonce{}, err
		}
		if [4]byte(b) != mark {
			// Drop up to the next byte that could begin a record.
			b, _ = r.Peek(max(r.Buffered(), len(mark)))
			n := bytes.IndexByte(b[1:], mark[0])
			if n < 0 {
				n = len(b) - 1
			}
			r.Discard(n + 1)
			skipped += n + 1
			continue
		}
		k, n, known, err := readControl(r)
		if err != nil {
			return kind{}, nonce{}, err
		}
		if known {
			return k, n, nil
		}
		r.Discard(1) // it only looked like one: the real one may begin within it
		skipped++
	}
	return kind{}, nonce{}, ErrLost
}

// readControl takes the control record that r stands at, if its kind is known.
func readControl(r *bufio.Reader) (k kind, n nonce, known bool, err error) {
	b, err := r.Peek(8)
	if err != nil {
		return k, n, false, err
	}
	k = kind(b[4:])
	switch k {
	case hello, welcome, start, started, bye:
	default:
		return k, n, false, nil
	}
	if b, err = r.Peek(controlSize); err != nil {
		return k, n, false, err
	}
	n = nonce(b[8:])
	r.Discard(controlSize)
	return k, n, true, nil
}

// readerSize fits what a port gives at once; it must hold a control record.
const readerSize = 64 << 10

func newReader(stream net.Conn) *bufio.Reader { return bufio.NewReaderSize(stream, readerSize) }

// Open opens a session from the host's side. It returns when the guest has answered, or with ctx. The stream must have no other reader, and know deadlines.
// The session's Close ends the session and leaves the stream open.
func Open(ctx context.Context, stream net.Conn) (net.Conn, error) {
	var n nonce
	rand.Read(n[:])
	s := &session{stream: stream, r: newReader(stream), nonce: n}
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

// Listener accepts sessions on the guest's side of a stream, one after the other. It is a [net.Listener] for an HTTP server: Accept gives the
// next session once the one before is over.
type Listener struct {
	stream net.Conn
	r      *bufio.Reader
	over   chan *session // the session before, when it is over
	closed chan struct{}
	once   sync.Once
	next   *nonce // of a hello that ended the session before
}

// Listen makes a listener. The stream must have no other reader, and know deadlines.
func Listen(stream net.Conn) *Listener {
	l := &Listener{stream: stream, r: newReader(stream), over: make(chan *session, 1), closed: make(chan struct{})}
	l.over <- nil
	return l
}

// Accept gives the next session. Its error is the stream's own: a stream whose other end is away for now must wait in Read.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case before := <-l.over:
		l.stream.SetDeadline(time.Time{})
		if before != nil {
			l.next = before.helloed
		}
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		var k kind
		var n nonce
		if l.next != nil {
			k, n, l.next = hello, *l.next, nil
		} else {
			var err error
			if k, n, err = seek(l.r); err != nil {
				return nil, err
			}
		}
		var opened bool
		switch k {
		case hello:
			if _, err := l.stream.Write(control(welcome, n)); err != nil {
				return nil, err
			}
		case start:
			if _, err := l.stream.Write(control(started, n)); err != nil {
				return nil, err
			}
			opened = true
		}
		if opened {
			return &session{stream: l.stream, r: l.r, nonce: n, over: l.over}, nil
		}
	}
}

// Close ends the listener, not the stream.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is that of the stream.
func (l *Listener) Addr() net.Addr { return l.stream.LocalAddr() }

// session is one end of a session.
type session struct {
	stream net.Conn
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
		_, err := s.stream.Write(s.buffer[:lengthSize+first])
		if err == nil && first < n {
			_, err = s.stream.Write(p[first:n]) // not copied: records of this size are the content of files
		}
		if err != nil {
			s.gone = err // a record may have been cut: nothing may follow it
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
	s.stream.SetDeadline(time.Unix(1, 0))
	s.state.Unlock()

	// Whoever is in Read or Write comes out now, and nobody gets in again.
	s.read.Lock()
	s.ended = net.ErrClosed
	s.read.Unlock()
	s.write.Lock()
	if s.gone == nil {
		s.stream.SetWriteDeadline(time.Now().Add(byePatience))
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
