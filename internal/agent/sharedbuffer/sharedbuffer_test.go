package sharedbuffer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand"
	"os"
	"testing"
	"testing/iotest"
)

func newBuffer(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "buffer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(Size); err != nil {
		t.Fatal(err)
	}
	return f
}

// move sends content through a shared buffer and returns the results of both sides.
func move(t testing.TB, from io.Reader, to io.Writer, limit int64) (sent, received int64, sendErr, receiveErr error) {
	t.Helper()
	w := newBuffer(t)
	recordsOut, recordsIn, err1 := os.Pipe()
	creditsOut, creditsIn, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sent, sendErr = Send(w, from, recordsIn, creditsOut)
		recordsIn.Close()
		creditsOut.Close()
	}()
	received, receiveErr = Receive(w, to, limit, recordsOut, creditsIn)
	recordsOut.Close()
	creditsIn.Close()
	<-done
	return
}

func TestMove(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for _, size := range []int{0, 1, page - 1, page, SlotSize - 1, SlotSize, SlotSize + 1, Size, Size + 1, 3*Size + 12345} {
		data := make([]byte, size)
		random.Read(data)
		// If the reader returns short reads, Send must still fill whole slots.
		for name, from := range map[string]io.Reader{"whole": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)), "end with data": iotest.DataErrReader(bytes.NewReader(data))} {
			var got bytes.Buffer
			sent, received, err1, err2 := move(t, from, &got, int64(size))
			if err1 != nil || err2 != nil || sent != int64(size) || received != int64(size) || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("%d bytes, %s: sent %d, %v; received %d, %v", size, name, sent, err1, received, err2)
			}
		}
	}
}

func TestTransferErrors(t *testing.T) {
	data := make([]byte, 2*SlotSize)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		from        io.Reader
		to          io.Writer
		limit       int64
		sends, gets error
	}{
		"reader fails":               {from: io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), sends: broken, gets: io.ErrUnexpectedEOF},
		"reader ends early, it says": {from: io.MultiReader(bytes.NewReader(data), iotest.ErrReader(io.ErrUnexpectedEOF)), sends: io.ErrUnexpectedEOF, gets: io.ErrUnexpectedEOF},
		"more than was agreed":       {from: bytes.NewReader(data), limit: SlotSize + 1, gets: ErrBroken},
		"writer fails":               {from: bytes.NewReader(data), to: failing{broken}, gets: broken},
	} {
		if c.to == nil {
			c.to = io.Discard
		}
		if c.limit == 0 {
			c.limit = math.MaxInt64
		}
		_, _, err1, err2 := move(t, c.from, c.to, c.limit)
		if c.sends != nil && err1 != c.sends || err2 != c.gets {
			t.Errorf("%s: %v, %v", name, err1, err2)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestSenderWaitsForFreeSlot checks that the sender waits for a credit before it uses a slot
// again.
func TestSenderWaitsForFreeSlot(t *testing.T) {
	w := newBuffer(t)
	var records bytes.Buffer
	_, err := Send(w, bytes.NewReader(make([]byte, 10*SlotSize)), &records, bytes.NewReader([]byte{1, 1}))
	if err != io.EOF || records.Len() != 4*(Slots+2) {
		t.Errorf("with two credits it announced %d slots: %v", records.Len()/4, err)
	}
}

// FuzzReceive checks that the receiver never accepts more bytes than the limit, for any records. It
// also checks that all bytes come from the buffer.
func FuzzReceive(f *testing.F) {
	record := func(lengths ...uint32) (b []byte) {
		for _, n := range lengths {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		return b
	}
	f.Add(record(5, 0), int64(5))
	f.Add(record(SlotSize, SlotSize, SlotSize, SlotSize, SlotSize, 1, 0), int64(math.MaxInt64))
	f.Add(record(SlotSize+1), int64(math.MaxInt64))
	f.Add(record(math.MaxUint32, 0), int64(math.MaxInt64))
	f.Add(record(7)[:3], int64(9))
	w := bytes.NewReader(make([]byte, Size))
	f.Fuzz(func(t *testing.T, records []byte, limit int64) {
		var to counter
		n, err := Receive(w, &to, limit, bytes.NewReader(records), io.Discard)
		if n != int64(to) || n > max(limit, 0) {
			t.Errorf("got %d bytes of %d, reported %d", to, limit, n)
		}
		if err == nil && !bytes.Contains(records, record(0)) {
			t.Error("it was complete without an end")
		}
	})
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// TestAnyPieceSize writes and reads in pieces whose sizes differ from the slot size.
func TestAnyPieceSize(t *testing.T) {
	for _, size := range []int{0, 1, SlotSize - 1, SlotSize, SlotSize + 1, 2*Size + 12345} {
		data := make([]byte, size)
		rand.New(rand.NewSource(int64(size))).Read(data)
		shared := newBuffer(t)
		recordsOut, recordsIn, err1 := os.Pipe()
		creditsOut, creditsIn, err2 := os.Pipe()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() {
			defer recordsIn.Close()
			defer creditsOut.Close()
			w := NewWriter(shared, recordsIn, creditsOut)
			defer w.Free()
			random := rand.New(rand.NewSource(1))
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+random.Intn(300_000))
				if _, err := w.Write(rest[:n]); err != nil {
					sent <- err
					return
				}
				rest = rest[n:]
			}
			sent <- w.Close()
		}()
		r := NewReader(shared, int64(size), recordsOut, creditsIn)
		first, err1 := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 100)))
		var rest bytes.Buffer
		n, err2 := r.WriteTo(&rest)
		if err := errors.Join(err1, err2); err != nil || n != int64(rest.Len()) || !bytes.Equal(append(first, rest.Bytes()...), data) {
			t.Errorf("%d bytes: %d came, %v", size, len(first)+rest.Len(), err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d bytes: after the end: %v", size, err)
		}
		if err := <-sent; err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		r.Free()
		recordsOut.Close()
		creditsIn.Close()
	}
}
