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

// cut is how a session is broken.
type cut int

const (
	readFails    cut = iota // the stream fails once, and what came goes on within a record
	readGarbage             // something else comes than a record
	writeFails              // the stream fails once
	writeGarbage            // something else than a record goes out
	writeHello              // another host seems to want the agent
	writeLost               // what goes out is lost from some record on, until the stream fails
	cuts
)

var errCut = errors.New("cut for the test")

// garbage is how much of it comes: what a record begins with, and more.
const garbage = 8

// cutter is a stream to an agent that breaks each session once, at a random point, in a random way, for as long as it is told to.
type cutter struct {
	net.Conn
	mu       sync.Mutex
	random   *rand.Rand
	most     int // bytes of a session before it is broken
	in, out  records
	way      cut
	left     int // bytes until the session is broken
	armed    bool
	swallow  bool // of writeLost
	doomed   bool // the stream will fail: an end that was interrupted within a record can't say so
	sessions int
	cuts     int // how many sessions are still to be broken
}

// records follows the records of the link (see package link) in what comes from the agent, to know where one ends.
type records struct {
	left int    // of the record
	head []byte // of the next
}

const controlRecord = 24

var (
	linkMark    = []byte{0xff, 'P', 'y', 0xff}
	linkHello   = append(linkMark[:4:4], "helo"...)
	linkStarted = append(linkMark[:4:4], "stdd"...)
)

// pass notes what comes, and tells after how many bytes of it the first record ends, -1 where none does.
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

// between tells whether the next byte begins a record.
func (r *records) between() bool { return r.left == 0 && len(r.head) == 0 }

func (c *cutter) arm() {
	c.sessions++
	c.in, c.out, c.swallow, c.doomed, c.armed = records{}, records{}, false, false, c.cuts > 0
	c.cuts--
	c.way = cut(c.random.Intn(int(cuts)))
	c.left = c.random.Intn(c.most)
}

// SetDeadline is called where a session ends, and where the next one begins: what opens a session is not cut.
func (c *cutter) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.swallow, c.doomed = false, false, false
	return c.Conn.SetDeadline(t)
}

func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:max(1, len(p)-garbage)]) // the rest is for what is put in
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
		junk[3] |= 0x80 // no length of a record
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

// outgoing notes what goes out, and tells whether it is what is cut. It is never cut within a record: what fills that up would be taken for its rest.
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
			c.Conn.SetReadDeadline(time.Unix(1, 0)) // the reader comes out
		}
	})
	return c.way, true
}

// counter reads lines of numbers, little at a time.
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
