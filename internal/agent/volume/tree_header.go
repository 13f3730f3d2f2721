package volume

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/sparse"
)

// This file encodes headers of tar archives in PAX format. archive/tar would need as much time for
// the headers as everything else needs for a tree.

// tarBlock is the size of a tar block, in bytes.
const tarBlock = 512

// Entry types.
const (
	tarFile    = '0'
	tarLink    = '1'
	tarSymlink = '2'
	tarFolder  = '5'
	tarRecords = 'x' // PAX records for the next entry
)

// tarEntry is an entry to write.
type tarEntry struct {
	kind   byte
	name   string
	target string        // link target
	size   int64         // file size
	holes  bool          // the file is sparse
	data   sparse.Ranges // the parts of a sparse file that follow the header
	st     *unix.Stat_t
	xattrs []attribute
}

var noBytes [tarBlock]byte

// tarBlocks encodes headers. It reuses the same memory for each header.
type tarBlocks struct {
	blocks  []byte
	records []byte
}

// SparseHeader returns the blocks that precede the data of a sparse file in a tar archive. st has
// the file's mode, owner, time and size. The ranges of data must follow, padded to 512 bytes.
func SparseHeader(name string, st *unix.Stat_t, data sparse.Ranges) []byte {
	return new(tarBlocks).header(tarEntry{kind: tarFile, name: name, size: st.Size, holes: true, data: data, st: st})
}

// sparseName is the name of sparse files for readers that don't know the format.
const sparseName = "GNUSparseFile.0/file"

// header returns the blocks that precede the content of an entry. They are valid until the next
// call.
func (b *tarBlocks) header(e tarEntry) []byte {
	b.blocks, b.records = b.blocks[:0], b.records[:0]
	var places []byte
	if e.holes {
		places = e.data.Map(e.size)
		b.record("GNU.sparse.major", "1")
		b.record("GNU.sparse.minor", "0")
		b.record("GNU.sparse.name", e.name)
		b.record("GNU.sparse.realsize", strconv.FormatInt(e.size, 10))
		e.name, e.size = sparseName, int64(len(places))+e.data.Bytes()
	}
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
	for _, x := range e.xattrs {
		b.record(xattrRecord+x.name, x.value)
	}
	if len(b.records) > 0 {
		b.block(tarEntry{kind: tarRecords, name: "records", size: int64(len(b.records)), st: &unix.Stat_t{Mode: 0o644}})
		b.blocks = append(b.blocks, b.records...)
		b.blocks = append(b.blocks, noBytes[:-len(b.records)&(tarBlock-1)]...)
	}
	b.block(e)
	b.blocks = append(b.blocks, places...)
	return b.blocks
}

// plain reports whether a string fits into a header field of the given size in bytes, without a PAX
// record.
func plain(s string, most int) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return len(s) <= most
}

// seconds formats a time for a PAX record. A time before 1970 is a negative number:
// -1.5 means 1.5 seconds before 1970.
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

// record appends a PAX record: its length, name, value and a newline.
func (b *tarBlocks) record(name, value string) {
	rest := len(name) + len(value) + 3 // a space, an equals sign and a newline
	length := rest + len(strconv.Itoa(rest))
	length = rest + len(strconv.Itoa(length)) // length also counts its own digits
	b.records = strconv.AppendInt(b.records, int64(length), 10)
	b.records = append(b.records, ' ')
	b.records = append(b.records, name...)
	b.records = append(b.records, '=')
	b.records = append(b.records, value...)
	b.records = append(b.records, '\n')
}

// block appends a header block. If a value does not fit into its field, the field is truncated or
// 0, and a PAX record contains the value.
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

// octal writes a number in octal with leading zeros and a final NUL. If the number does not fit,
// octal writes 0.
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
