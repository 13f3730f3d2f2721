package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// For the format of the header see docs/interop/qcow2.txt in QEMU. Numbers are big-endian.
const (
	magic      = 0x514649fb
	version    = 3
	headerSize = 104 // in bytes, without the optional fields of version 3
	// A cluster must have between 512 bytes and 2 MiB.
	minClusterBits, maxClusterBits = 9, 21
)

// MaxSize is the largest supported virtual size in bytes.
const MaxSize = 1 << 40

// featureDirty is an incompatible feature. It means that refcounts are not up to date, which does
// not matter for reading.
const featureDirty = 1 << 0

// features contains QEMU's names of the other incompatible features, by bit number.
var features = []string{1: "corrupt", 2: "external data file", 3: "compression type", 4: "extended L2 entries"}

// header contains the header fields that this package needs. Their values have been checked.
type header struct {
	size        int64 // virtual size, in bytes
	clusterBits uint
	l1          int64 // offset of the L1 table in bytes
	end         int64 // size of the file
}

func (h header) cluster() int64 { return 1 << h.clusterBits }

// covered returns the number of disk bytes that an L2 table maps. An L2 table is one cluster of
// 8-byte entries.
func (h header) covered() int64 { return 1 << (2*h.clusterBits - 3) }

var (
	// ErrCorrupt reports that a file is damaged or not a qcow2 image.
	ErrCorrupt = errors.New("damaged qcow2 image")
	// ErrUnsupported reports that an image uses a feature that pyro's layers never use.
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
		return h, corrupt("its header is truncated")
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
		return h, unsupported("unknown features (%#x)", incompatible)
	}
	switch {
	case be.Uint64(raw[8:]) != 0 || be.Uint32(raw[16:]) != 0:
		return h, unsupported("it names a backing file")
	case be.Uint32(raw[32:]) != 0:
		return h, unsupported("it is encrypted")
	case be.Uint32(raw[60:]) != 0:
		return h, unsupported("it has internal snapshots")
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
		return h, corrupt("its L1 table has %d entries and needs %d", entries, need)
	} else if l1%uint64(h.cluster()) != 0 || l1 > uint64(info.Size()) || int64(l1)+8*need > info.Size() {
		return h, corrupt("its L1 table is at %d in a file of %d bytes", l1, info.Size())
	}
	return h, nil
}
