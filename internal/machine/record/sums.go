package record

import (
	"context"
	"hash/crc32"
	"io"
	"os"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// BlockSize is the number of bytes that share a checksum.
const BlockSize = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // processors have an instruction for this polynomial

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Sums are the checksums of a file.
type Sums struct {
	Size   int64    `json:"size"`
	CRC32C []uint32 `json:"crc32c"` // of each block
}

// add adds the checksum of the next block.
func (s *Sums) add(b []byte) {
	s.Size += int64(len(b))
	s.CRC32C = append(s.CRC32C, sum(b))
}

// SumsOf computes the checksums of a file.
func SumsOf(f *os.File) (s Sums, err error) {
	buffer := make([]byte, BlockSize)
	for {
		n, err := f.ReadAt(buffer, s.Size)
		if n > 0 {
			s.add(buffer[:n])
		}
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
	}
}

// Damaged returns the error for a damaged block of a file.
func Damaged(name string, block int, how string) error {
	return fault.Newf(fault.Corrupt, "%s is damaged: block %d, the MiB at %#x, %s", name, block, int64(block)*BlockSize, how)
}

// Check reads the whole file and compares the checksums. If a block is damaged, the error has kind
// Corrupt and names the block.
func (s Sums) Check(ctx context.Context, name string, f *os.File) error {
	if err := s.Measure(name, f); err != nil {
		return err
	}
	buffer := make([]byte, BlockSize)
	for i := range s.CRC32C {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := s.Block(name, f, i, buffer); err != nil {
			return err
		}
	}
	return nil
}

// Measure compares only the size of a file. If the size is wrong, the error has kind Corrupt.
func (s Sums) Measure(name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.Size || int64(len(s.CRC32C)) != (s.Size+BlockSize-1)/BlockSize {
		return fault.Newf(fault.Corrupt, "%s is damaged: it has %d bytes, not %d", name, info.Size(), s.Size)
	}
	return nil
}

// Block reads a block and compares its checksum. The buffer must have BlockSize bytes. If the block
// is damaged, the error has kind Corrupt.
func (s Sums) Block(name string, f *os.File, i int, buffer []byte) ([]byte, error) {
	at := int64(i) * BlockSize
	b := buffer[:min(BlockSize, s.Size-at)]
	if _, err := f.ReadAt(b, at); err == io.EOF {
		return nil, Damaged(name, i, "is cut short")
	} else if err != nil {
		return nil, err
	}
	if sum(b) != s.CRC32C[i] {
		return nil, Damaged(name, i, "has another checksum")
	}
	return b, nil
}
