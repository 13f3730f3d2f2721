package record

import (
	"context"
	"hash/crc32"
	"io"
	"os"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// BlockSize is how much of a file has a checksum of its own.
const BlockSize = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // processors have an instruction for it

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Sums tell whether a file is what was written.
type Sums struct {
	Size   int64    `json:"size"`
	CRC32C []uint32 `json:"crc32c"` // of each MiB
}

// SumsOf sums up a file.
func SumsOf(f *os.File) (s Sums, err error) {
	err = blocks(f, func(_ int, b []byte) error {
		s.Size += int64(len(b))
		s.CRC32C = append(s.CRC32C, sum(b))
		return nil
	})
	return s, err
}

// Check reads a file whole and tells which block of it is not what was summed up, with kind Corrupt.
func (s Sums) Check(ctx context.Context, name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.Size || int64(len(s.CRC32C)) != (s.Size+BlockSize-1)/BlockSize {
		return fault.New(fault.Corrupt, "", "", "%s is damaged: it has %d bytes, not %d", name, info.Size(), s.Size)
	}
	return blocks(f, func(i int, b []byte) error {
		if i >= len(s.CRC32C) || sum(b) != s.CRC32C[i] {
			return fault.New(fault.Corrupt, "", "", "%s is damaged: block %d, the MiB at %#x, has another checksum", name, i, int64(i)*BlockSize)
		}
		return ctx.Err()
	})
}

func blocks(f *os.File, each func(i int, b []byte) error) error {
	buffer := make([]byte, BlockSize)
	for i := 0; ; i++ {
		n, err := f.ReadAt(buffer, int64(i)*BlockSize)
		if n > 0 {
			if err := each(i, buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
