package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cut is a way to break a session.
type cut int

const (
	readFails    cut = iota // a read fails once, in the middle of a record.
	readGarbage             // a read returns invalid bytes.
	writeFails              // a write fails once.
	writeGarbage            // the session sends invalid bytes.
	writeHello              // the session sends a hello record, as another host would.
	writeLost               // writes are lost until the stream fails.
	cuts
)

var errCut = errors.New("cut for the test")

// garbage is the number of inserted bytes. It is larger than the length at the start of a record.
const garbage = 8

// cutter is a stream to an agent. It breaks a session at a random point and in a random way. It
// breaks each session only once, and it breaks only a limited number of sessions.
type cutter struct {
	net.Conn
	mu       sync.Mutex
	random   *rand.Rand
	most     int // maximum number of bytes before a session is broken
	in, out  records
	way      cut
	left     int // number of bytes before the session is broken
	armed    bool
	swallow  bool // all writes are lost (writeLost)
	doomed   bool // the stream will fail, because a record was interrupted
	sessions int
	cuts     int // number of sessions that can still be broken
}

// records parses the records of the link (see package link) to find where each record ends.
type records struct {
	left int    // remaining bytes of the current record
	head []byte // header of the next record
}

const controlRecord = 24

var (
	linkMark    = []byte{0xff, 'P', 'y', 0xff}
	linkHello   = append(linkMark[:4:4], "helo"...)
	linkStarted = append(linkMark[:4:4], "stdd"...)
)

// pass parses p. It returns the offset in p where the first complete record ends, or -1 if none
// does.
func (r *records) pass(p []byte) (boundary int) {
	boundary = -1
	for i := 0; i < len(p); {
		if r.left > 0 {
			n := min(r.left, len(p)-i)
			r.left -= n
			i += n
			if r.left == 0 && boundary < 0 {
				boundary = i
			}
			continue
		}
		r.head = append(r.head, p[i])
		i++
		if len(r.head) == 4 {
			if bytes.Equal(r.head, linkMark) {
				r.left = controlRecord - 4
			} else {
				r.left = int(binary.LittleEndian.Uint32(r.head))
			}
			r.head = r.head[:0]
		}
	}
	return boundary
}

// between reports whether the next byte is the first byte of a record.
func (r *records) between() bool { return r.left == 0 && len(r.head) == 0 }

func (c *cutter) arm() {
	c.sessions++
	c.in, c.out, c.swallow, c.doomed, c.armed = records{}, records{}, false, false, c.cuts > 0
	c.cuts--
	c.way = cut(c.random.Intn(int(cuts)))
	c.left = c.random.Intn(c.most)
}

// SetDeadline stops cuts, because the start of a session must not be cut. The client calls it at
// the end of a session and before the next one.
func (c *cutter) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.swallow, c.doomed = false, false, false
	return c.Conn.SetDeadline(t)
}

func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:max(1, len(p)-garbage)]) // leaves space for inserted bytes
	c.mu.Lock()
	defer c.mu.Unlock()
	from := 0
	if i := bytes.Index(p[:n], linkStarted); i >= 0 && !c.armed {
		c.arm()
		from = i
	}
	boundary := c.in.pass(p[from:n])
	if !c.armed || err != nil {
		return n, err
	}
	switch c.left -= n - from; {
	case c.left > 0:
	case c.way == readFails:
		c.armed = false
		return 0, errCut
	case c.way == readGarbage && boundary >= 0 && len(p)-n >= garbage:
		c.armed = false
		junk := make([]byte, garbage)
		c.random.Read(junk)
		junk[3] |= 0x80 // not a valid length
		n = from + boundary + copy(p[from+boundary:], junk)
	}
	return n, err
}

func (c *cutter) Write(p []byte) (int, error) {
	if way, due := c.outgoing(p); due {
		switch way {
		case writeFails:
			return 0, errCut
		case writeGarbage:
			c.Conn.Write([]byte{1, 2, 3, 0xff, 5})
		case writeHello:
			c.Conn.Write(append(linkHello[:8:8], make([]byte, controlRecord-8)...))
		case writeLost:
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// outgoing parses written data, and reports whether and how to break the session now. It never
// inserts bytes within a record, because the agent would read them as the rest of the record.
func (c *cutter) outgoing(p []byte) (way cut, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swallow {
		return writeLost, true
	}
	begins := c.out.between()
	c.out.pass(p)
	if !c.armed {
		return 0, false
	}
	c.left -= len(p)
	if c.left > 0 || !begins || c.way == readFails || c.way == readGarbage {
		return 0, false
	}
	c.armed, c.swallow = false, c.way == writeLost
	if c.way == writeFails {
		return c.way, true
	}
	c.doomed = true
	session := c.sessions
	time.AfterFunc(20*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.sessions == session && c.doomed {
			c.Conn.SetReadDeadline(time.Unix(1, 0)) // unblocks the reader
		}
	})
	return c.way, true
}

// counter is a reader of numbered lines. Each Read returns only a few bytes.
type counter struct {
	random *rand.Rand
	text   *strings.Reader
}

func (c *counter) Read(p []byte) (int, error) {
	return c.text.Read(p[:min(len(p), 1+c.random.Intn(8<<10))])
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return b.String()
}
