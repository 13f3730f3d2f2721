package qcow2

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

const (
	clusterBits = 16 // one cluster of the L1 table covers 4 TiB
	cluster     = 1 << clusterBits
)

// Create writes an empty layer for a disk of size bytes to an empty file. The layer consists of 4
// clusters. It is a sparse file that occupies 12 KiB on a host with blocks of 4 KiB. The layer does
// not name a backing file.
func Create(file *os.File, size int64) error {
	if size <= 0 || size > MaxSize || size%512 != 0 {
		return fmt.Errorf("a layer can't have %d bytes", size)
	}
	// The file contains the header, the refcount table, the refcounts of these 4 clusters, and the
	// L1 table, in this order. The L1 table is a hole.
	const refcountTable, refcounts, l1, end = 1 * cluster, 2 * cluster, 3 * cluster, 4 * cluster
	be := binary.BigEndian
	header := make([]byte, headerSize)
	for at, v := range map[int]uint32{0: magic, 4: version, 20: clusterBits, 36: uint32((size-1)>>(2*clusterBits-3) + 1), 56: 1, 96: 4 /* 16 bits */, 100: headerSize} {
		be.PutUint32(header[at:], v)
	}
	for at, v := range map[int]uint64{24: uint64(size), 40: l1, 48: refcountTable} {
		be.PutUint64(header[at:], v)
	}
	table := be.AppendUint64(nil, refcounts)
	var counts []byte
	for range end / cluster {
		counts = be.AppendUint16(counts, 1)
	}
	if err := file.Truncate(end); err != nil {
		return err
	}
	for _, part := range []struct {
		at int64
		b  []byte
	}{{refcounts, counts}, {refcountTable, table}, {0, header}} {
		if _, err := io.NewOffsetWriter(file, part.at).Write(part.b); err != nil {
			return err
		}
	}
	return nil
}
