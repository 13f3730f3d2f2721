package volume

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// The headers of a tar archive in PAX form. They are written here since a tree is mostly headers, of which the standard library's cost as much as all the rest.

// tarBlock is what everything in an archive is a multiple of.
const tarBlock = 512

// The kinds of entries that trees have.
const (
	tarFile    = '0'
	tarLink    = '1'
	tarSymlink = '2'
	tarFolder  = '5'
	tarRecords = 'x' // of the entry after it
)

// tarEntry is what an entry is.
type tarEntry struct {
	kind   byte
	name   string
	target string // of a link
	size   int64  // of a file
	st     *unix.Stat_t
}

var noBytes [tarBlock]byte

// tarBlocks makes headers, one after the other in the same memory.
type tarBlocks struct {
	blocks  []byte
	records []byte
}

// of gives the blocks that come before an entry's content.
func (b *tarBlocks) of(e tarEntry) []byte {
	b.blocks, b.records = b.blocks[:0], b.records[:0]
	if !plain(e.name, 100) {
		b.record("path", e.name)
	}
	if !plain(e.target, 100) {
		b.record("linkpath", e.target)
	}
	if e.size >= 1<<33 {
		b.record("size", strconv.FormatInt(e.size, 10))
	}
	if e.st.Uid >= 1<<21 {
		b.record("uid", strconv.FormatUint(uint64(e.st.Uid), 10))
	}
	if e.st.Gid >= 1<<21 {
		b.record("gid", strconv.FormatUint(uint64(e.st.Gid), 10))
	}
	if e.st.Mtim.Nsec != 0 || e.st.Mtim.Sec < 0 || e.st.Mtim.Sec >= 1<<33 {
		b.record("mtime", seconds(e.st.Mtim))
	}
	if len(b.records) > 0 {
		b.block(tarEntry{kind: tarRecords, name: "records", size: int64(len(b.records)), st: &unix.Stat_t{Mode: 0o644}})
		b.blocks = append(b.blocks, b.records...)
		b.blocks = append(b.blocks, noBytes[:-len(b.records)&(tarBlock-1)]...)
	}
	b.block(e)
	return b.blocks
}

// plain tells whether a name fits into a header as it is.
func plain(s string, most int) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return len(s) <= most
}

// seconds gives a time as records have it: before 1970 it is negative as a whole.
func seconds(t unix.Timespec) string {
	sec, nsec, sign := t.Sec, t.Nsec, ""
	if sec < 0 && nsec > 0 {
		sec, nsec = sec+1, nsec-1e9
	}
	if sec < 0 || nsec < 0 {
		sec, nsec, sign = -sec, -nsec, "-"
	}
	fraction := strconv.FormatInt(1e9+nsec, 10)[1:]
	return sign + strconv.FormatInt(sec, 10) + "." + fraction
}

// record adds a record: its own length, what it says, a line's end.
func (b *tarBlocks) record(name, value string) {
	rest := len(name) + len(value) + 3 // a space, an equals sign, the line's end
	length := rest + len(strconv.Itoa(rest))
	length = rest + len(strconv.Itoa(length)) // the length itself may have made it longer by a digit
	b.records = strconv.AppendInt(b.records, int64(length), 10)
	b.records = append(b.records, ' ')
	b.records = append(b.records, name...)
	b.records = append(b.records, '=')
	b.records = append(b.records, value...)
	b.records = append(b.records, '\n')
}

// block adds the header itself. What does not fit is in the records, and cut or zero here.
func (b *tarBlocks) block(e tarEntry) {
	from := len(b.blocks)
	b.blocks = append(b.blocks, noBytes[:]...)
	h := b.blocks[from:]
	copy(h[:100], e.name)
	octal(h[100:108], int64(e.st.Mode&0o7777))
	octal(h[108:116], int64(e.st.Uid))
	octal(h[116:124], int64(e.st.Gid))
	octal(h[124:136], e.size)
	octal(h[136:148], e.st.Mtim.Sec)
	h[156] = e.kind
	copy(h[157:257], e.target)
	copy(h[257:], "ustar\x0000")
	copy(h[148:], "        ")
	sum := int64(0)
	for _, c := range h {
		sum += int64(c)
	}
	octal(h[148:155], sum)
}

// octal writes a number with leading zeroes and a zero byte after it, where it fits.
func octal(field []byte, n int64) {
	last := len(field) - 1
	if n < 0 || n >= 1<<(3*last) {
		n = 0
	}
	for i := last - 1; i >= 0; i-- {
		field[i] = byte('0' + n&7)
		n >>= 3
	}
	field[last] = 0
}
