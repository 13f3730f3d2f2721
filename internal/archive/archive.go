// Package archive moves trees of files between the host and machines as tar streams: folders and archives of the host's in, exports out.
//
// An archive, and all that a machine sends, is taken for hostile: it is bounded, and whatever leads out of where it belongs is refused with the entry
// named. A folder of the host's is the user's own, and is only kept from changing under the reader's hands unnoticed.
package archive

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// The limits that apply where none are given.
const (
	DefaultBytes   = 15 << 30
	DefaultEntries = 1_000_000
)

// Limits bound what is read. A field that is 0 is the default. What holds more is an error of kind Exhausted.
type Limits struct {
	Bytes   int64 // of all files, holes counted
	Entries int
}

func (l Limits) orDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Entries <= 0 {
		l.Entries = DefaultEntries
	}
	return l
}

// Beside the content of files an archive holds headers and padding for each entry, and something at its end.
const (
	overheadOfEntry = 4 << 10
	overheadOfEnd   = 16 << 20
)

// stream is how long a tar stream may be.
func (l Limits) stream() int64 {
	limit := l.Bytes + int64(l.Entries)*overheadOfEntry + overheadOfEnd
	if limit < 0 {
		return tree.NoLimit
	}
	return limit
}

// Devices says what becomes of an archive's devices and FIFOs, which no machine is given.
type Devices int

// What may become of them.
const (
	SkipDevices   Devices = iota // they are counted, and left out
	RefuseDevices                // they make the archive one that is refused
)

// Policy is what a source may hold.
type Policy struct {
	Limits  Limits
	Devices Devices // in a folder, where sockets and FIFOs are at home, they are skipped

	// Ignored tells what of a folder is left out, with all that is in it; nil: nothing. It is asked
	// about a folder before what is in it. It does not apply to archives.
	Ignored func(ctx context.Context, path string, folder bool) bool
}

// Summary says what was read or written.
type Summary struct {
	Files        int
	Directories  int
	Symlinks     int
	HardLinks    int   // further names of files that were counted already
	Skipped      int   // devices, FIFOs and sockets
	Ignored      int   // files and folders that the policy ignores; a folder counts as one
	OutwardLinks int   // of the symbolic links of an export, those that can lead out of it
	Bytes        int64 // of all files
}

// tally holds what has been read against the limits.
type tally struct {
	limits  Limits
	entries int
	bytes   int64
}

// count counts one more entry, with the size of its content.
func (t *tally) count(size int64) error {
	if t.entries++; t.entries > t.limits.Entries {
		return fault.Newf(fault.Exhausted, "that would be more than %d files and folders", t.limits.Entries)
	}
	if size > t.limits.Bytes-t.bytes {
		return fault.Newf(fault.Exhausted, "with the %d bytes that it has it would be more than %d bytes in all", size, t.limits.Bytes)
	}
	t.bytes += size
	return nil
}

// Source is a tree of files on the host that a machine is to be given: a folder or an archive.
type Source interface {
	// WriteTar writes the tree as a clean tar stream, with its end mark: in PAX's format, names relative and without "." and "..", folders with a slash
	// behind their names and before what is in them, each name once, all owned by root, times to the nanosecond. It holds files, folders, symbolic links
	// and hard links to files that are earlier in it; the top itself it does not describe. What is in a folder need not follow it at once, so whoever
	// unpacks the stream sets the times of folders last. Sparse files are read in full.
	//
	// An error says which file or entry it was for; what was written by then is of no use. Errors of w come back as they are. It can be called again.
	//
	// Kinds: Invalid for an archive that is damaged or hostile; Exhausted for more than the limits; Precondition for what changed while it was read;
	// Permission for what can't be read.
	WriteTar(ctx context.Context, w io.Writer, policy Policy) (Summary, error)
	// Close ends the use.
	Close() error
}
