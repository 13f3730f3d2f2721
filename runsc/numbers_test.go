package main

import (
	"math/rand/v2"
	"testing"
)

// TestNumbers gives random inode numbers to files as a file system does, which uses the numbers of
// removed files again. Each file must keep its number for the sentry, and no two files have the
// same one.
func TestNumbers(t *testing.T) {
	const inodes = 40
	random := rand.New(rand.NewPCG(1, 2))
	var n numbers
	shared := map[uint64]bool{}    // originals that are still in the volume
	seen := map[uint64]uint64{}    // files of the volume, with the number that the sentry got
	elsewhere := map[uint64]bool{} // originals that only other volumes have
	free := func() (uint64, bool) {
		for range 100 {
			inode := random.Uint64N(inodes) + 1
			if _, used := seen[inode]; !used && !elsewhere[inode] {
				return inode, true
			}
		}
		return 0, false
	}
	any := func(of map[uint64]bool) (uint64, bool) {
		for inode := uint64(1); inode <= inodes; inode++ {
			if of[inode] && random.IntN(3) == 0 {
				return inode, true
			}
		}
		return 0, false
	}
	for inode := uint64(1); inode <= inodes/2; inode++ {
		shared[inode], seen[inode] = true, inode
	}
	for range 10000 {
		switch random.IntN(4) {
		case 0: // a new file
			if inode, ok := free(); ok {
				n.created(inode)
				seen[inode] = n.of(inode)
			}
		case 1: // a shared file gets a copy
			original, ok := any(shared)
			if copy, free := free(); ok && free {
				n.replaced(original, copy)
				seen[copy] = seen[original]
				delete(seen, original)
				delete(shared, original)
				elsewhere[original] = true
			}
		case 2: // the last other volume with an original is removed
			if inode, ok := any(elsewhere); ok {
				delete(elsewhere, inode)
			}
		case 3: // a file is removed
			inode := random.Uint64N(inodes) + 1
			if _, ok := seen[inode]; ok && !shared[inode] {
				delete(seen, inode)
			}
		}
		all := map[uint64]bool{}
		for inode, number := range seen {
			if got := n.of(inode); got != number {
				t.Fatalf("the number of %d changed from %d to %d", inode, number, got)
			}
			if all[number] {
				t.Fatalf("two files have the number %d", number)
			}
			all[number] = true
		}
	}
}
