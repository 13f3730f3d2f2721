package saved

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

// sender makes streams as QEMU does.
type sender struct {
	bytes.Buffer
	named string
}

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

// begin sends what comes before the pages, of a machine with size bytes of memory and a table of its firmware.
func (s *sender) begin(size int64) {
	s.number(magic)
	s.number(version)
	s.WriteByte(kindConfiguration)
	s.number(7)
	s.WriteString("microvm")
	s.section(kindStart, func() {
		s.name("ram")
		s.number(0)
		s.number(4)
		s.long(uint64(size+2*pageSize) | flagSizes)
		s.name("mem")
		s.long(uint64(size))
		s.name("/rom@etc/tables")
		s.long(2 * pageSize)
	})
}

func (s *sender) page(block string, at int64, data []byte) {
	flags := uint64(flagPage)
	if isZero(data) {
		flags = flagZero
	}
	if s.named == block {
		flags |= flagContinue
	}
	s.long(uint64(at) | flags)
	if s.named != block {
		s.name(block)
		s.named = block
	}
	if flags&flagZero != 0 {
		s.WriteByte(0)
	} else {
		s.Write(data)
	}
}

// devices are what QEMU says of its devices: here, something.
var devices = append([]byte{kindFull}, "all that is known of its devices"...)

// reader is the QEMU that goes on from an image, with its memory mapped from a base.
func load(t *testing.T, image io.Reader, memory []byte) (firmware, tail []byte) {
	t.Helper()
	firmware = make([]byte, 2*pageSize)
	r := newStream(image, int64(len(memory)))
	r.page = func(b *block, at int64, data []byte) error {
		if b.main {
			copy(memory[at:], data)
		} else {
			copy(firmware[at:], data)
		}
		return nil
	}
	err := r.head()
	if err == nil {
		err = r.memory(int64(len(memory)), func() error { return nil })
	}
	if err == nil {
		tail, err = r.tail()
	}
	if err != nil {
		t.Fatal(err)
	}
	return firmware, tail
}

// baseOf makes a base with some content, of which most is a hole.
func baseOf(t testing.TB, size int64, random *rand.Rand) (*os.File, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "ram"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	content := make([]byte, size)
	random.Read(content[:size/8])
	if _, err := f.WriteAt(content[:size/8], 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f, content
}

func fileFor(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestImage sends machines that change while they are sent, and has another go on from what was written.
func TestImage(t *testing.T) {
	const size = 24 << 20
	for seed := range int64(6) {
		random := rand.New(rand.NewSource(seed))
		base, memory := baseOf(t, size, random)
		before := bytes.Clone(memory)
		touch := func(pages int) (touched []int64) {
			for range pages {
				at := random.Int63n(size/pageSize) * pageSize
				switch random.Intn(4) {
				case 0:
					clear(memory[at:][:pageSize])
				case 1:
					copy(memory[at:], before[at:][:pageSize])
				default:
					random.Read(memory[at:][:pageSize])
				}
				touched = append(touched, at)
			}
			return touched
		}
		touch(size / pageSize / 3)
		if seed == 1 {
			random.Read(memory[:pageSize])
		}
		var s sender
		s.begin(size)
		tables := make([]byte, 2*pageSize)
		random.Read(tables[:pageSize])
		s.section(kindPart, func() {
			for at := int64(0); at < size; at += pageSize {
				s.page("mem", at, memory[at:][:pageSize])
			}
			for at := int64(0); at < 2*pageSize; at += pageSize {
				s.page("/rom@etc/tables", at, tables[at:][:pageSize])
			}
		})
		for pass, kind := range []byte{kindPart, kindPart, kindEnd} {
			s.section(kind, func() {
				for _, at := range touch(500) {
					s.page("mem", at, memory[at:][:pageSize])
				}
				if pass == 1 {
					random.Read(tables[:pageSize])
					s.page("/rom@etc/tables", 0, tables[:pageSize])
				}
			})
		}
		// A page is sent as it is when it is sent, which may be later than when it was touched.
		var all sender
		all.Write(s.Bytes())
		all.Write(devices)

		file := fileFor(t)
		sums, err := Receive(iotest.HalfReader(&all), base, size, file)
		if err != nil {
			t.Fatal(err)
		}
		if err := sums.Check(context.Background(), "memory", file); err != nil {
			t.Error("what was just written:", err)
		}
		other := bytes.Clone(before)
		firmware, tail := load(t, io.NewSectionReader(file, 0, sums.Size), other)
		if !bytes.Equal(other, memory) || !bytes.Equal(firmware, tables) || !bytes.Equal(tail, devices) {
			t.Errorf("seed %d: it went on with another memory: %t, firmware: %t, devices: %t",
				seed, !bytes.Equal(other, memory), !bytes.Equal(firmware, tables), !bytes.Equal(tail, devices))
		}
		different := 0
		for at := 0; at < size; at += pageSize {
			if !bytes.Equal(memory[at:][:pageSize], before[at:][:pageSize]) && !isZero(memory[at:][:pageSize]) {
				different++
			}
		}
		// Those that were sent again and are as they were before keep their place.
		if most := int64(different+1500)*recordSize + size/pageSize*9 + 64<<10; sums.Size > most {
			t.Errorf("seed %d: %d pages differ, and it takes %d bytes", seed, different, sums.Size)
		}
	}
}

// TestNothingChangedTakesNoRoom saves a machine that is what it was mapped from.
func TestNothingChangedTakesNoRoom(t *testing.T) {
	const size = 8 << 20
	base, memory := baseOf(t, size, rand.New(rand.NewSource(1)))
	var s sender
	s.begin(size)
	s.section(kindPart, func() {
		for at := int64(0); at < size; at += pageSize {
			s.page("mem", at, memory[at:][:pageSize])
		}
	})
	s.section(kindEnd, func() {})
	s.Write(devices)
	sums, err := Receive(&s, base, size, fileFor(t))
	if err != nil || sums.Size > 8<<10 {
		t.Errorf("%d bytes, %v", sums.Size, err)
	}
}

// small is a stream of a small machine, and what it was mapped from.
func small(t testing.TB) (stream []byte, base *os.File, size int64) {
	size = 16 * pageSize
	random := rand.New(rand.NewSource(1))
	base, memory := baseOf(t, size, random)
	random.Read(memory[3*pageSize : 5*pageSize])
	clear(memory[:pageSize])
	var s sender
	s.begin(size)
	for _, kind := range []byte{kindPart, kindEnd} {
		s.section(kind, func() {
			for at := int64(0); at < size; at += pageSize {
				s.page("mem", at, memory[at:][:pageSize])
			}
			s.page("/rom@etc/tables", pageSize, memory[3*pageSize:][:pageSize])
		})
	}
	s.Write(devices)
	return s.Bytes(), base, size
}

// TestEveryCutIsTold cuts a stream at each of its bytes before the devices.
func TestEveryCutIsTold(t *testing.T) {
	whole, base, size := small(t)
	file := fileFor(t)
	for n := 0; n <= len(whole)-len(devices); n += 1 + n%97 {
		if _, err := Receive(bytes.NewReader(whole[:n]), base, size, file); !errors.Is(err, ErrStream) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

// FuzzReceive gives anything for a stream: it may be refused, but what is accepted is whole, bounded, and can be gone on from.
func FuzzReceive(f *testing.F) {
	whole, base, size := small(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(whole[:60])
	f.Add([]byte("QEVM"))
	for _, at := range []int{4, 8, 9, 13, 21, 26, 40, 60, 61, 80, 100, 120} {
		changed := bytes.Clone(whole)
		changed[at] ^= 0xff
		f.Add(changed)
	}
	file := fileFor(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		sums, err := Receive(bytes.NewReader(b), base, size, file)
		info, statErr := file.Stat()
		if statErr != nil || info.Size() > int64(len(b))+2*maxSmall+size {
			t.Fatalf("%d bytes became %v, %v", len(b), info.Size(), statErr)
		}
		if err != nil {
			if !errors.Is(err, ErrStream) {
				t.Fatal(err)
			}
			return
		}
		if err := sums.Check(context.Background(), "memory", file); err != nil {
			t.Error(err)
		}
		again := fileFor(t)
		if _, err := Receive(io.NewSectionReader(file, 0, sums.Size), base, size, again); err != nil {
			t.Error("what was written can't be read:", err)
		}
	})
}
