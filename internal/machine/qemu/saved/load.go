package saved

import (
	"context"
	"os"
	"sync"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// loaders is the number of goroutines that read and check blocks.
const loaders = 2

// Load writes the content of a file from [Save] to a machine's memory. The memory must be mapped
// from the same base and must not have changed. The error names a damaged block.
func Load(ctx context.Context, name string, file *os.File, sums record.Sums, memory *Memory) error {
	if err := sums.Measure(name, file); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for first := range loaders {
		all.Go(func() {
			buffer := make([]byte, record.BlockSize)
			for i := first; i < len(sums.CRC32C) && ctx.Err() == nil; i += loaders {
				b, err := sums.Block(name, file, i, buffer)
				if err == nil {
					err = memory.put(name, i, b)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// put writes the pages of one block to the memory.
func (m *Memory) put(name string, i int, b []byte) error {
	all, ok := stretches(b, uint32(m.size/pageSize))
	if !ok {
		return record.Damaged(name, i, "is none")
	}
	for _, s := range all {
		if s.content != nil {
			if err := m.write(s.first, s.content); err != nil {
				return err
			}
			continue
		}
		for page := range s.pages {
			if err := m.write(s.first+page, zeroPage); err != nil {
				return err
			}
		}
	}
	return nil
}
