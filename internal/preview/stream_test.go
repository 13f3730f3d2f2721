package preview

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// taker is a connection that accepts and stores all data.
type taker struct {
	net.Conn
	got bytes.Buffer
}

func (c *taker) Write(b []byte) (int, error) { return c.got.Write(b) }

// frame returns a frame of a server with a payload of n bytes.
func frame(n int) []byte {
	b := []byte{0x82}
	switch {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, bytes.Repeat([]byte{0x88}, n)...)
}

// TestGoingAway sends frames in random pieces, and closes the WebSocket at a random moment. The
// client must get whole frames, and then the frame with the status.
func TestGoingAway(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t, 1), 0))
	sizes := []int{0, 1, 125, 126, 65535, 65536, 70000}
	for range 300 {
		var sent []byte
		ends := map[int]bool{0: true}
		for range 1 + r.IntN(4) {
			sent = append(sent, frame(sizes[r.IntN(len(sizes))])...)
			ends[len(sent)] = true
		}
		conn := &taker{}
		s, at := &socket{Conn: conn}, r.IntN(len(sent)+1)
		for done := 0; done < len(sent); {
			n := min(1+r.IntN(1+r.IntN(40000)), len(sent)-done)
			if done <= at && at < done+n {
				s.mu.Lock()
				s.ending = true
				s.tryEnd()
				s.mu.Unlock()
			}
			if m, err := s.Write(sent[done : done+n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			done += n
		}
		s.ending = true
		s.tryEnd()
		got, ok := bytes.CutSuffix(conn.got.Bytes(), goingAway)
		if !ok || !bytes.HasPrefix(sent, got) || !ends[len(got)] {
			t.Fatalf("the client got %d bytes of %d, and the close frame: %v", len(got), len(sent), ok)
		}
	}
}
