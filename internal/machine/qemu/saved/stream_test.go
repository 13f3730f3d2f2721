package saved

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"testing"
)

// sender builds streams in QEMU's format.
type sender struct{ bytes.Buffer }

const ramID = 2

func (s *sender) number(n uint32) { s.Write(binary.BigEndian.AppendUint32(nil, n)) }
func (s *sender) long(n uint64)   { s.Write(binary.BigEndian.AppendUint64(nil, n)) }
func (s *sender) name(n string)   { s.WriteByte(byte(len(n))); s.WriteString(n) }

func (s *sender) section(kind byte, body func()) {
	s.WriteByte(kind)
	s.number(ramID)
	body()
	s.long(flagEnd)
	s.WriteByte(kindFooter)
	s.number(ramID)
}

// device adds the state of a device.
func (s *sender) device(id uint32, name, state string) {
	s.WriteByte(kindFull)
	s.number(id)
	s.name(name)
	s.number(0)
	s.number(1)
	s.WriteString(state)
	s.WriteByte(kindFooter)
	s.number(id)
}

const tables = "/rom@etc/tables"

// templateOf returns the stream from a machine with size bytes of RAM. The RAM is not in the
// stream. The result head is the length of the head.
func templateOf(size int64) (stream []byte, head int) {
	var s sender
	s.number(magic)
	s.number(version)
	s.WriteByte(kindConfiguration)
	s.number(7)
	s.WriteString("microvm")
	s.WriteByte(kindSubsection)
	s.name("configuration/capabilities")
	s.number(1)
	s.number(1)
	s.name("x-ignore-shared")
	content := make([]byte, pageSize)
	rand.New(rand.NewSource(1)).Read(content)
	s.section(kindStart, func() {
		s.name("ram")
		s.number(0)
		s.number(4)
		s.long(uint64(size+2*pageSize) | flagSizes)
		s.name("mem")
		s.long(uint64(size))
		s.long(0)
		s.name(tables)
		s.long(2 * pageSize)
		s.long(1 << 40)
	})
	s.section(kindPart, func() {
		s.long(flagPage)
		s.name(tables)
		s.Write(content)
		s.long(pageSize | flagZero | flagContinue)
		s.WriteByte(0)
	})
	s.section(kindEnd, func() {})
	head = s.Len()
	s.Write(devicesOf("before")[8:])
	return s.Bytes(), head
}

// devicesOf returns a stream that contains only the state of the devices.
func devicesOf(link string) []byte {
	var s sender
	s.number(magic)
	s.number(version)
	s.device(3, "timer", "at some time")
	s.device(40, "virtio-mmio@00000000feb02e00/virtio-console", link)
	s.device(41, "virtio-mmio@00000000feb02c00/virtio-blk", "all that is known of it")
	s.WriteByte(kindEOF)
	return s.Bytes()
}

const someSize = 64 * pageSize

// TestDevices creates a stream from a template's head, then another stream from the head of the
// first.
func TestDevices(t *testing.T) {
	stream, length := templateOf(someSize)
	for range 2 {
		head, err := ReadHead(bytes.NewReader(stream), someSize)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(head, stream[:length]) {
			t.Errorf("head: got %d bytes, want %d", len(head), length)
		}
		devices := devicesOf("later")
		if stream, err = Devices(head, devices); err != nil {
			t.Fatal(err)
		}
		if rest, ok := bytes.CutPrefix(stream, head); !ok || !bytes.HasPrefix(rest, devices[8:]) || len(rest) != len(devices)-8+5 {
			t.Errorf("got %x after the head", rest)
		}
	}
	head, whole := Head(stream[:length]), devicesOf("")
	for _, devices := range [][]byte{nil, whole[:8], whole[:len(whole)-1], whole[8:], append(bytes.Clone(whole), 7), make([]byte, MaxDevices+1)} {
		if _, err := Devices(head, devices); !errors.Is(err, ErrStream) {
			t.Errorf("%d bytes of devices: %v", len(devices), err)
		}
	}
}

// TestInvalidHeads checks that ReadHead rejects truncated heads and heads that do not match
// the machine's RAM.
func TestInvalidHeads(t *testing.T) {
	stream, length := templateOf(someSize)
	if _, err := ReadHead(bytes.NewReader(stream), 2*someSize); !errors.Is(err, ErrStream) {
		t.Error("of a machine with more memory:", err)
	}
	withPages := bytes.Replace(stream, append([]byte{0, 0, 0, 0, 0, 0, 0, flagPage, byte(len(tables))}, tables...), []byte("\x00\x00\x00\x00\x00\x00\x00\x08\x03mem"), 1)
	if _, err := ReadHead(bytes.NewReader(withPages), someSize); len(withPages) == len(stream) || !errors.Is(err, ErrStream) {
		t.Error("with the machine's own memory:", err)
	}
	for n := 0; n < length; n += 1 + n%97 {
		if _, err := ReadHead(bytes.NewReader(stream[:n]), someSize); !errors.Is(err, ErrStream) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

// FuzzHead reads arbitrary streams. It checks that an accepted head is a prefix of its stream. A
// new stream that is made from the head must have the same head.
func FuzzHead(f *testing.F) {
	stream, length := templateOf(someSize)
	f.Add(stream)
	f.Add(stream[:length])
	f.Add(stream[:length/2])
	f.Add([]byte("QEVM"))
	for _, at := range []int{4, 8, 9, 13, 21, 26, 40, 50, 61, 80, 100, 120, 140, 160} {
		changed := bytes.Clone(stream)
		changed[at] ^= 0xff
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, err := ReadHead(bytes.NewReader(b), someSize)
		if err != nil {
			if !errors.Is(err, ErrStream) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasPrefix(b, head) {
			t.Fatal("the sample does not begin with the head")
		}
		made, err := Devices(head, devicesOf("x"))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ReadHead(bytes.NewReader(made), someSize); err != nil || !bytes.Equal(again, head) {
			t.Error("read the created head:", err)
		}
	})
}
