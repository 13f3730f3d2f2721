// Package link runs sessions, one after another, on a byte stream without connection boundaries,
// such as a virtio-serial port. Data of an earlier session that is still in the stream never
// reaches a later session. The end of a session does not end the stream.
//
// The stream carries records. A data record is a length followed by that many bytes of data. The
// length has 4 bytes, little endian, and is from 1 to [MaxRecord]. A control record has a magic
// number of 4 bytes, a kind of 4 bytes and a nonce of 16 bytes. The magic number is not a valid
// length. The nonce identifies the session.
//
// The host opens a session by sending hello repeatedly until the guest answers with welcome. Then
// the host sends start, and the guest answers with started. Data can follow start and started. So
// each side knows where the data of a session begins, even if several hellos and welcomes are in
// flight. It drops everything before that. A hello during a session ends this session and opens
// another one. bye ends a session.
package link

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"time"
)

// MaxRecord is the maximum amount of data in a record, in bytes.
const MaxRecord = 1 << 20

// portWrite is the size of the largest write to a virtio-serial port, in bytes. The length of a
// record and the start of its data fit into one such write.
const portWrite = 32 << 10

const (
	lengthSize  = 4
	nonceSize   = 16
	controlSize = 8 + nonceSize
	// helloInterval is the time between two hellos.
	helloInterval = 100 * time.Millisecond
	// paddingEvery is how many hellos the host sends before it sends padding. If the guest is still
	// in the middle of a record, the padding completes that record.
	paddingEvery = 5
	// byeTimeout limits how long the final writes of a session take: the rest of a record, and bye.
	byeTimeout = time.Second
	// maxSkipped is how many bytes are dropped, at most, in search of a control record.
	maxSkipped = 64 << 20
)

// magic begins every control record. It can't be the length of a data record, because it is larger
// than MaxRecord.
var magic = [4]byte{0xff, 'P', 'y', 0xff}

type kind [4]byte

var (
	hello   = kind{'h', 'e', 'l', 'o'}
	welcome = kind{'w', 'e', 'l', 'c'}
	start   = kind{'s', 't', 'r', 't'}
	started = kind{'s', 't', 'd', 'd'}
	bye     = kind{'b', 'y', 'e', 0}
)

type nonce [nonceSize]byte

// ErrLost means that the other side has left the session, or that the stream carries data of
// another protocol.
var ErrLost = errors.New("the link was lost")

func controlRecord(k kind, n nonce) []byte {
	b := make([]byte, 0, controlSize)
	b = append(b, magic[:]...)
	b = append(b, k[:]...)
	return append(b, n[:]...)
}

// nextControl returns the next control record. It drops everything before that record.
func nextControl(r *bufio.Reader) (kind, nonce, error) {
	for skipped := 0; skipped < maxSkipped; {
		b, err := r.Peek(len(magic))
		if err != nil {
			return kind{}, nonce{}, err
		}
		if [4]byte(b) != magic {
			// Drop everything before the next possible start of a record.
			b, _ = r.Peek(max(r.Buffered(), len(magic)))
			n := bytes.IndexByte(b[1:], magic[0])
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
		r.Discard(1) // not a control record, but a real one can begin within these bytes
		skipped++
	}
	return kind{}, nonce{}, ErrLost
}

// readControl reads a control record at the reader's current position. If the kind is unknown,
// known is false and nothing is consumed.
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

// readerSize is the buffer size of a reader, in bytes. A control record must fit into it.
const readerSize = 64 << 10

func newReader(stream net.Conn) *bufio.Reader { return bufio.NewReaderSize(stream, readerSize) }
