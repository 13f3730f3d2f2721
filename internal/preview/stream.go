package preview

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// closeTime is the maximum time for clients to close their WebSockets.
const closeTime = time.Second

// streams contains the open streams that end only when the server or a client closes them.
type streams struct {
	closing context.Context
	begin   context.CancelFunc

	mu   sync.Mutex
	done bool
	open sync.WaitGroup // the WebSockets
}

func (s *streams) init() { s.closing, s.begin = context.WithCancel(context.Background()) }

// add calls end when the streams must end, unless ctx ends first.
func (s *streams) add(ctx context.Context, end func()) {
	stop := context.AfterFunc(s.closing, end)
	context.AfterFunc(ctx, func() { stop() })
}

// enter adds a WebSocket. ok is false if no more are accepted.
func (s *streams) enter() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.open.Add(1)
	}
	return !s.done
}

// close ends all streams, and waits until WebSockets are closed.
func (s *streams) close() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.begin()
	s.open.Wait()
}

// upgrading is the response writer for a WebSocket request.
type upgrading struct {
	http.ResponseWriter
	streams *streams
}

// Unwrap lets http.ResponseController find the methods of the server's writer.
func (u upgrading) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack implements http.Hijacker.
func (u upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if !u.streams.enter() {
		conn.Close()
		return nil, nil, net.ErrClosed
	}
	s := &socket{Conn: conn, streams: u.streams}
	s.stop = context.AfterFunc(u.streams.closing, s.goAway)
	return s, buffered, nil // the head of the answer is written to buffered, so the parser of frames does not see it
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// goingAway is a frame that closes a WebSocket with the status 1001: the server ends, and clients
// can connect again.
var goingAway = []byte{0x88, 2, 0x03, 0xE9}

// socket is the client's side of a WebSocket. It parses the guest's frames, so that it can insert a
// frame between two of them.
type socket struct {
	net.Conn
	streams *streams
	stop    func() bool
	once    sync.Once

	mu     sync.Mutex
	head   []byte // an incomplete header of a frame
	left   uint64 // bytes of the frame that are still to come
	ending bool   // send goingAway after the current frame
	ended  bool
}

// Write sends frames of the guest to the client.
func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return len(b), nil // the client is closing
	}
	n := len(b)
	if s.ending {
		n = s.frame(b)
	} else {
		s.follow(b)
	}
	if m, err := s.Conn.Write(b[:n]); err != nil {
		return m, err
	}
	s.tryEnd()
	return len(b), nil
}

// follow advances the parser over bytes of frames.
func (s *socket) follow(b []byte) {
	for len(b) > 0 {
		b = b[s.step(b):]
	}
}

// frame advances the parser to the end of the current frame, and returns the number of bytes.
func (s *socket) frame(b []byte) int {
	n := 0
	for n < len(b) && !s.between() {
		n += s.step(b[n:])
	}
	return n
}

// between reports whether the last byte was the end of a frame.
func (s *socket) between() bool { return s.left == 0 && len(s.head) == 0 }

// step advances the parser over the rest of a payload, or over one byte of a header. It returns the
// number of bytes.
func (s *socket) step(b []byte) int {
	if s.left > 0 {
		n := min(s.left, uint64(len(b)))
		s.left -= n
		return int(n)
	}
	s.head = append(s.head, b[0])
	if len(s.head) < 2 {
		return 1
	}
	size, length := 2, uint64(s.head[1]&0x7F)
	switch length {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if s.head[1]&0x80 != 0 {
		size += 4 // a mask, which servers must not send
	}
	if len(s.head) < size {
		return 1
	}
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		length = binary.BigEndian.Uint64(s.head[2:])
	}
	s.head, s.left = s.head[:0], length
	return 1
}

// goAway closes the WebSocket with the status 1001.
func (s *socket) goAway() {
	s.SetWriteDeadline(time.Now().Add(closeTime)) // a write in progress can hold the lock
	time.AfterFunc(closeTime, func() { s.Close() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.tryEnd()
}

// tryEnd sends the close frame if the WebSocket must end and no frame of the guest is incomplete.
// The client then closes the connection.
func (s *socket) tryEnd() {
	if s.ending && !s.ended && s.between() {
		s.ended = true
		s.Conn.Write(goingAway)
	}
}

// Close closes the connection.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.stop()
		s.streams.open.Done()
	})
	return s.Conn.Close()
}
