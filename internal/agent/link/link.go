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
	"errors"
	"net"
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
	// byePatience bounds what a closing session still writes: the rest of a record, and bye.
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
