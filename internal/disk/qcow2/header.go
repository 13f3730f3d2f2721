package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// The header, after docs/interop/qcow2.txt of QEMU. Numbers are big-endian.
const (
	magic      = 0x514649fb
	version    = 3
	headerSize = 104 // bytes, without what version 3 may have beyond it
	// Clusters of less than 512 bytes or more than 2 MiB there are none.
	minClusterBits, maxClusterBits = 9, 21
)

// MaxSize is the largest virtual size that is read, in bytes.
const MaxSize = 1 << 40

// Incompatible features. A dirty image's counts of references are not up to date, which is of no concern for reading.
const featureDirty = 1 << 0

// features are those that there are beyond, as QEMU names them.
var features = []string{1: "corrupt", 2: "external data file", 3: "compression type", 4: "extended L2 entries"}

// header is what is needed of a layer's header, checked.
type header struct {
	size        int64 // virtual, in bytes
	clusterBits uint
	l1          int64 // where the first table is, in bytes
	end         int64 // of the file
}

func (h header) cluster() int64 { return 1 << h.clusterBits }

// covered is how many bytes of the disk a table of clusters tells of: it fills a cluster with entries of 8 bytes.
func (h header) covered() int64 { return 1 << (2*h.clusterBits - 3) }

var (
	// ErrCorrupt says that a file is no qcow2 image, or a damaged one.
	ErrCorrupt = errors.New("damaged qcow2 image")
	// ErrUnsupported says that an image uses what no layer of pyro's uses.
	ErrUnsupported = errors.New("unexpected kind of qcow2 image")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

func readHeader(file *os.File) (header, error) {
	var h header
	info, err := file.Stat()
	if err != nil {
		return h, err
	}
	raw := make([]byte, headerSize)
	if _, err := file.ReadAt(raw, 0); err != nil {
		return h, corrupt("its header is cut")
	}
	be := binary.BigEndian
	if be.Uint32(raw[0:]) != magic {
		return h, corrupt("it has no header")
	}
	if v := be.Uint32(raw[4:]); v != version {
		return h, unsupported("version %d", v)
	}
	if incompatible := be.Uint64(raw[72:]) &^ featureDirty; incompatible != 0 {
		for bit, name := range features {
			if name != "" && incompatible&(1<<bit) != 0 {
				return h, unsupported("the feature %s", name)
			}
		}
		return h, unsupported("features of the future (%#x)", incompatible)
	}
	switch {
	case be.Uint64(raw[8:]) != 0 || be.Uint32(raw[16:]) != 0:
		return h, unsupported("it names a file that it lies over")
	case be.Uint32(raw[32:]) != 0:
		return h, unsupported("it is encrypted")
	case be.Uint32(raw[60:]) != 0:
		return h, unsupported("it has snapshots in it")
	}
	bits, size, entries, l1 := be.Uint32(raw[20:]), be.Uint64(raw[24:]), be.Uint32(raw[36:]), be.Uint64(raw[40:])
	if bits < minClusterBits || bits > maxClusterBits {
		return h, corrupt("clusters of 1 << %d bytes", bits)
	}
	if size > MaxSize {
		return h, unsupported("a disk of %d bytes", size)
	}
	h = header{size: int64(size), clusterBits: uint(bits), l1: int64(l1), end: info.Size()}
	if need := (h.size + h.covered() - 1) / h.covered(); int64(entries) < need {
		return h, corrupt("its first table has %d entries, and not %d", entries, need)
	} else if l1%uint64(h.cluster()) != 0 || l1 > uint64(info.Size()) || int64(l1)+8*need > info.Size() {
		return h, corrupt("its first table is at %d, in a file of %d bytes", l1, info.Size())
	}
	return h, nil
}
