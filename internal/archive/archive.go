// Package archive moves file trees between the host and machines as tar streams. It imports
// directories and archives of the host, and exports files from machines.
//
// Archives and streams from machines are not trusted. The package limits their size, and rejects
// entries that lead outside of their tree. The error then contains the name of the entry. A
// directory on the host belongs to the user. The package checks only whether it changes while the
// package reads it.
package archive

import (
	"cmp"
	"context"
	"io"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// Default limits.
const (
	DefaultBytes   = 15 << 30
	DefaultEntries = 1_000_000
)

// Limits limits the amount of data that is read. A zero field means the default. If content exceeds
// a limit, the error has kind Exhausted.
type Limits struct {
	Bytes   int64 // total size of all files in bytes, without the holes of sparse files
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

// Besides content, an archive contains a header and padding for each entry, and an end marker.
// These constants are upper limits for their sizes, in bytes.
const (
	overheadOfEntry = 4 << 10
	overheadOfEnd   = 16 << 20
)

// stream returns the maximum length of a tar stream in bytes.
func (l Limits) stream() int64 {
	limit := l.Bytes + int64(l.Entries)*overheadOfEntry + overheadOfEnd
	if limit < 0 {
		return tree.NoLimit
	}
	return limit
}

// Devices specifies how to handle devices and FIFOs in archives. Machines never get them.
type Devices int

// Ways to handle devices and FIFOs.
const (
	SkipDevices   Devices = iota // count them and leave them out
	RefuseDevices                // reject the archive
)

// Policy specifies what a source is allowed to contain.
type Policy struct {
	Limits  Limits
	Devices Devices // For archives. Directories always skip devices, FIFOs and sockets.
	Owners  bool    // For directories: entries keep their owners. Otherwise they belong to root.
	Below   string  // the names of all entries begin with this path, if it is not empty

	// Ignored reports whether to leave out a path of a directory, and everything below that path.
	// For a directory it is called before its content. If the function is nil, nothing is ignored.
	// Archives do not use it.
	Ignored func(ctx context.Context, path string, folder bool) bool
	// Git returns the files that replace the .git in a folder of a directory, or nil to copy the
	// .git as it is. If git can't work in the copy, missing is the reason. If the function is nil,
	// every .git is copied as it is. Archives do not use it.
	Git func(ctx context.Context, folder string) (files GitFiles, missing string)
	// Present reports whether the destination already has a file of the host, with the same
	// content, mode and time. Such a file is counted, but not written. file is open for reading.
	// Present is not called for files with several names. If the function is nil, all files are
	// written. Archives do not use it.
	Present func(path string, file int, st *unix.Stat_t) bool
}

// GitFiles calls the function add for each file below a .git. A name is relative to .git; it is
// empty for a file .git itself, and ends with a slash for a folder. The parameter host is the path
// of the content on this host. If host is empty, the content is text.
type GitFiles func(ctx context.Context, add func(name, host string, text []byte) error) error

// Summary counts the entries that were read or written.
type Summary struct {
	Files        int
	Unchanged    int // Files that were not written, because they were present. Files counts them too.
	Directories  int
	Symlinks     int
	HardLinks    int    // Additional hard links to counted files.
	Skipped      int    // Devices, FIFOs and sockets.
	Ignored      int    // Ignored paths. An ignored directory counts once.
	OutwardLinks int    // Symbolic links in an export that might lead out of the export.
	Bytes        int64  // Total size of all files, in bytes.
	GitMissing   string // Why git can't work in copied checkouts.
}

// maxGitMissing limits the total size of the reasons in a summary, in bytes. The last reason can
// exceed it.
const maxGitMissing = 1000

// maxHoles limits the size of sparse files with their holes, as a multiple of [Limits.Bytes]. Holes
// take no space, but time.
const maxHoles = 16

// tally counts entries and bytes, and compares them with the limits.
type tally struct {
	limits  Limits
	entries int
	bytes   int64
	sparse  int64 // total size of the sparse files, with their holes
}

// addHoles adds the size of a sparse file with its holes. dataReader counts the data.
func (t *tally) addHoles(size int64) error {
	if size > maxHoles*t.limits.Bytes-t.sparse {
		return fault.Newf(fault.Exhausted, "its %d bytes exceed the limit of %d bytes for all sparse files", size, maxHoles*t.limits.Bytes)
	}
	t.sparse += size
	return nil
}

// count adds one entry with content of size bytes.
func (t *tally) count(size int64) error {
	if t.entries++; t.entries > t.limits.Entries {
		return fault.Newf(fault.Exhausted, "there are more than %d files and directories", t.limits.Entries)
	}
	if size > t.limits.Bytes-t.bytes {
		return fault.Newf(fault.Exhausted, "its %d bytes exceed the limit of %d bytes in total", size, t.limits.Bytes)
	}
	t.bytes += size
	return nil
}

// counted adds an entry whose content has size bytes, and returns a reader of the content. The data
// of a sparse file is counted while it is read.
func (t *tally) counted(size int64, content *tree.Reader) (io.Reader, error) {
	if !content.Sparse() {
		return content, t.count(size)
	}
	return &dataReader{in: content, tally: t}, cmp.Or(t.count(0), t.addHoles(size))
}

// dataReader is the content of a sparse file. It fails if the data exceeds the limit.
type dataReader struct {
	in    io.Reader
	at    int64
	tally *tally
}

func (r *dataReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if failed := sparse.Each(p[:n], r.at, func(b []byte, _ int64) error {
		r.tally.entries-- // count counts an entry
		return r.tally.count(int64(len(b)))
	}); failed != nil {
		return 0, failed
	}
	r.at += int64(n)
	return n, err
}

// Source is a directory or an archive on the host. It is a file tree for a machine.
type Source interface {
	// WriteTar writes the tree as a normalized tar stream in PAX format. The stream has the
	// following properties:
	//   - Names are unique and relative, without "." and "..".
	//   - Directories end in a slash and come before their content.
	//   - All entries belong to root, unless the policy has Owners.
	//   - Times have nanosecond precision.
	//   - The entries are directories, files, symbolic links, and hard links to earlier files.
	//   - The root has no entry.
	//   - Files with holes are sparse entries in version 1.0 of GNU's PAX format.
	//   - The stream ends with an end marker.
	//
	// The content of a directory does not always follow the directory directly. Readers must
	// therefore set the times of directories last.
	//
	// Errors contain the name of the file or entry. After an error, the written part is useless.
	// WriteTar returns errors from w unchanged. Callers can call WriteTar again.
	//
	// Errors have the following kinds:
	//   - Invalid if the archive is damaged or hostile.
	//   - Exhausted if the content exceeds the limits.
	//   - Precondition if a file changed during the read.
	//   - Permission if a file is not readable.
	WriteTar(ctx context.Context, w io.Writer, policy Policy) (Summary, error)
	// Close closes the file or directory.
	Close() error
}
