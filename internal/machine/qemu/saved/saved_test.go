package saved

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine/record"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// mapped is a private mapping of a base in the test process. It is like the memory in a QEMU
// process.
type mapped struct {
	*Memory
	base  *os.File
	bytes []byte
}

// baseOf creates a base file that is mostly a hole.
func baseOf(t testing.TB, size int64, random *rand.Rand) *os.File {
	t.Helper()
	f := fileFor(t, "ram")
	content := make([]byte, size/8)
	random.Read(content)
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func fileFor(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func self(name string, flags int) (*os.File, error) {
	return os.OpenFile("/proc/self/"+name, flags, 0)
}

// mapOf maps a base into this process. No other mapping in the process may have this size.
func mapOf(t testing.TB, base *os.File, size int64) *mapped {
	t.Helper()
	b, err := unix.Mmap(int(base.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	m := &mapped{base: base, bytes: b}
	t.Cleanup(func() { m.unmap(t) })
	if m.Memory, err = OpenMemory(self, size); err != nil {
		t.Fatal(err)
	}
	if at := int64(uintptr(unsafe.Pointer(&b[0]))); m.begin != at {
		t.Fatalf("found at %#x, want %#x", m.begin, at)
	}
	return m
}

func (m *mapped) unmap(t testing.TB) {
	if m.bytes == nil {
		return
	}
	m.Close()
	if err := unix.Munmap(m.bytes); err != nil {
		t.Error(err)
	}
	m.bytes = nil
}

// touch picks random pages. It sets some to zeros, some to their content in the base, some to
// random bytes, and only reads the others.
func (m *mapped) touch(random *rand.Rand, pages int) {
	was := make([]byte, pageSize)
	for range pages {
		at := random.Int63n(m.size/pageSize) * pageSize
		page := m.bytes[at:][:pageSize]
		switch random.Intn(5) {
		case 0:
			clear(page)
		case 1:
			m.base.ReadAt(was, at)
			copy(page, was)
		case 2:
			bytes.Equal(page, was)
		default:
			random.Read(page)
		}
	}
}

func (m *mapped) save(t testing.TB, file *os.File) record.Sums {
	t.Helper()
	base, err := OpenBase(m.base, m.size)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := Save(context.Background(), m.Memory, base, nil, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := sums.Check(context.Background(), "memory", file); err != nil {
		t.Error("check after writing:", err)
	}
	return sums
}

// TestMemory saves changed memory and loads it into a new mapping. It changes and saves the new
// mapping again.
func TestMemory(t *testing.T) {
	const size = 24 << 20
	for seed := range int64(6) {
		random := rand.New(rand.NewSource(seed))
		m := mapOf(t, baseOf(t, size, random), size)
		for round := range 3 {
			m.touch(random, size/pageSize/3)
			if seed == 1 { // runs of pages that span several blocks
				random.Read(m.bytes[2<<20 : 20<<20])
				clear(m.bytes[7<<20 : 9<<20])
			}
			if seed == 2 { // more zero pages than one block can list
				for at := int64(0); at < size/8; at += 2 * pageSize {
					clear(m.bytes[at:][:pageSize])
				}
			}
			want := bytes.Clone(m.bytes)
			file := fileFor(t, "memory")
			sums := m.save(t, file)
			m.unmap(t)
			m = mapOf(t, m.base, size)
			if err := Load(context.Background(), "memory", file, sums, m.Memory); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.bytes, want) {
				t.Fatalf("seed %d, round %d: another memory", seed, round)
			}
			different, was := int64(0), make([]byte, pageSize)
			for at := int64(0); at < size; at += pageSize {
				m.base.ReadAt(was, at)
				if page := want[at:][:pageSize]; !bytes.Equal(page, was) && !bytes.Equal(page, zeroPage) {
					different++
				}
			}
			if most := different*pageSize + different*pageSize/pagesInBlock + (seed%3/2*10+2)*record.BlockSize; sums.Size > most {
				t.Errorf("seed %d, round %d: %d pages differ, saved %d bytes", seed, round, different, sums.Size)
			}
		}
		m.unmap(t)
	}
}

// TestUnchangedMemoryIsOmitted checks that nothing is saved if the memory equals its base. The
// test first writes the same content to some pages.
func TestUnchangedMemoryIsOmitted(t *testing.T) {
	const size = 8 << 20
	m := mapOf(t, baseOf(t, size, rand.New(rand.NewSource(1))), size)
	copy(m.bytes[size/16:], bytes.Clone(m.bytes[size/16:size/2]))
	file := fileFor(t, "memory")
	if sums := m.save(t, file); sums.Size > 0 {
		t.Errorf("%d bytes", sums.Size)
	}
}

// TestFreePagesAreOmitted checks that free pages are not saved and have the content of the base
// after Load. All other pages are saved.
func TestFreePagesAreOmitted(t *testing.T) {
	const size = 16 << 20
	random := rand.New(rand.NewSource(1))
	m := mapOf(t, baseOf(t, size, random), size)
	random.Read(m.bytes)
	free, kept := make([]bool, size/pageSize), int64(0)
	for at := 0; at < len(free); {
		for end, is := min(len(free), at+1+random.Intn(600)), random.Intn(2) == 0; at < end; at++ {
			if free[at] = is; !is {
				kept++
			}
		}
	}
	base, err := OpenBase(m.base, size)
	if err != nil {
		t.Fatal(err)
	}
	file, next := fileFor(t, "memory"), uint32(0)
	sums, err := Save(context.Background(), m.Memory, base, func(page uint32) bool {
		if page != next {
			t.Fatalf("got a request for page %d, want %d", page, next)
		}
		next++
		return free[page]
	}, file)
	if err != nil || sums.Size > kept*pageSize+(kept/pagesInBlock+1)*pageSize {
		t.Errorf("%d bytes for %d pages, %v", sums.Size, kept, err)
	}
	want := bytes.Clone(m.bytes)
	for page, is := range free {
		if is {
			m.base.ReadAt(want[page*pageSize:][:pageSize], int64(page)*pageSize)
		}
	}
	m.unmap(t)
	m = mapOf(t, m.base, size)
	if err := Load(context.Background(), "memory", file, sums, m.Memory); err != nil || !bytes.Equal(m.bytes, want) {
		t.Errorf("got error %v, or the memory differs", err)
	}
}

// TestSwappedPages makes the kernel swap out pages, and checks that these pages are saved
// too.
func TestSwappedPages(t *testing.T) {
	const size = 4 << 20
	random := rand.New(rand.NewSource(1))
	m := mapOf(t, baseOf(t, size, random), size)
	random.Read(m.bytes[1<<20 : 2<<20])
	want := bytes.Clone(m.bytes)
	if err := unix.Madvise(m.bytes, unix.MADV_PAGEOUT); err != nil {
		testenv.Lacks(t, err)
	}
	file := fileFor(t, "memory")
	sums := m.save(t, file)
	m.unmap(t)
	m = mapOf(t, m.base, size)
	if err := Load(context.Background(), "memory", file, sums, m.Memory); err != nil || !bytes.Equal(m.bytes, want) {
		t.Errorf("got error %v, or the memory differs", err)
	}
	for mark, is := range map[uint64]bool{
		0: false, pagePresent: true, pageSwapped: true, pagePresent | pageOfFile: false, pageSwapped | pageOfFile: false, pageOfFile: false, pagePresent | 1<<55: true,
	} {
		if own(mark) != is {
			t.Errorf("%#x: %t", mark, !is)
		}
	}
}

// TestDamageIsNamed changes bits and the length of a file. It checks that Load fails and that the
// error names the block.
func TestDamageIsNamed(t *testing.T) {
	const size = 8 << 20
	random := rand.New(rand.NewSource(1))
	m := mapOf(t, baseOf(t, size, random), size)
	random.Read(m.bytes[2<<20 : 6<<20])
	file := fileFor(t, "memory")
	sums := m.save(t, file)
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	last := sums.Size / record.BlockSize
	if last < 3 {
		t.Fatal(sums.Size)
	}
	for at, block := range map[int64]string{0: "block 0,", 1000: "block 0,", record.BlockSize - 1: "block 0,", record.BlockSize: "block 1,", 2*record.BlockSize + 5000: "block 2,", sums.Size - 1: "block 4,"} {
		file.WriteAt([]byte{content[at] ^ 4}, at)
		for what, err := range map[string]error{"checked": sums.Check(context.Background(), "memory", file), "loaded": Load(context.Background(), "memory", file, sums, m.Memory)} {
			if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), block) {
				t.Errorf("%s, at %d: %v", what, at, err)
			}
		}
		file.WriteAt(content[at:at+1], at)
	}
	if err := sums.Check(context.Background(), "memory", file); err != nil {
		t.Error(err)
	}
	for _, length := range []int64{sums.Size - 1, sums.Size + 1, 0} {
		file.Truncate(length)
		if err := Load(context.Background(), "memory", file, sums, m.Memory); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("of %d bytes: %v", length, err)
		}
	}
}

// TestCancelled checks that Save and Load fail if the context is cancelled.
func TestCancelled(t *testing.T) {
	const size = 4 << 20
	random := rand.New(rand.NewSource(1))
	m := mapOf(t, baseOf(t, size, random), size)
	random.Read(m.bytes)
	file := fileFor(t, "memory")
	sums := m.save(t, file)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Load(ctx, "memory", file, sums, m.Memory); !errors.Is(err, context.Canceled) {
		t.Error("loaded:", err)
	}
	base, err := OpenBase(m.base, size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Save(ctx, m.Memory, base, nil, file); !errors.Is(err, context.Canceled) {
		t.Error("saved:", err)
	}
}

// TestFind parses mapping lists in the format of real kernels.
func TestFind(t *testing.T) {
	const whole = "7f0000000000-7f0000002000 rw-p 00000000 fe:00 42 /cache/ram\n"
	const size = 2 * pageSize
	for list, at := range map[string]int64{
		whole: 0x7f0000000000,
		"1000-2000 rw-p 00000000 fe:00 42 /cache/ram\n2000-3000 rw-p 00001000 fe:00 42 /cache/ram\n":                                        0x1000,
		"1000-2000 rw-p 00000000 fe:00 41 /usr/bin/qemu\n2000-4000 rw-p 00000000 fe:00 42 /cache/ram (deleted)\n":                           0x2000,
		"1000-3000 rw-s 00000000 fe:00 43 /memfd:window\n" + whole + "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n": 0x7f0000000000,
		"1000-2000 rw-p 00000000 fe:00 42 /cache/ram\n3000-4000 rw-p 00001000 fe:00 42 /cache/ram\n":                                        -1,
		"1000-2000 rw-p 00000000 fe:00 42 /cache/ram\n2000-3000 rw-p 00001000 fe:00 43 /cache/ram\n":                                        -1,
		"1000-2000 rw-p 00000000 fe:00 42 /cache/ram\n2000-3000 rw-p 00002000 fe:00 42 /cache/ram\n":                                        -1,
		"1000-3000 rw-p 00001000 fe:00 42 /cache/ram\n":                                                                                     -1,
		"1000-3000 rw-p 00000000 00:00 0\n":                 -1,
		"1000-3000 rw-s 00000000 fe:00 42 /cache/ram\n":     -1,
		whole + "1000-3000 rw-p 00000000 fe:00 44 /other\n": -1,
		"nothing of that kind\n":                            -1,
		"":                                                  -1,
	} {
		if got, err := find(strings.NewReader(list), size); (err != nil) != (at < 0) || err == nil && got != at {
			t.Errorf("%#x, %v, of\n%s", got, err, list)
		}
	}
}

// FuzzStretches parses arbitrary blocks. It checks that accepted pages are within the memory and
// within the block.
func FuzzStretches(f *testing.F) {
	b := newBlock(make([]byte, record.BlockSize))
	for number := range uint32(9) {
		b.add(number*number, b.room()[:pageSize])
		b.zero(100 + number)
	}
	f.Add(bytes.Clone(b.whole(true)))
	f.Add(b.whole(true)[:pageSize])
	f.Add([]byte{1})
	const size = 128
	f.Fuzz(func(t *testing.T, b []byte) {
		all, ok := stretches(b, size)
		room := len(b)
		for _, s := range all {
			if uint64(s.first)+uint64(s.pages) > size || s.content != nil && len(s.content) != int(s.pages)*pageSize {
				t.Fatalf("%d pages at %d with %d bytes", s.pages, s.first, len(s.content))
			}
			room -= len(s.content)
		}
		if ok && room < pageSize {
			t.Fatalf("more than its %d bytes", len(b))
		}
	})
}
