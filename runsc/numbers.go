package main

import "sync"

// numbers translates inode numbers of the host to the numbers that the sentry gets. A copy of a
// shared file has another inode than the original, but the sentry must not notice that. Otherwise
// open files would lose their locks, for example. All other numbers stay the same.
//
// Two files never have the same number. The host can give a removed inode's number to a new file
// while a copy still uses it. The gofer creates all files of its volume, so it notices that.
type numbers struct {
	mu    sync.RWMutex
	shown map[uint64]uint64 // number on the host: number for the sentry
	taken map[uint64]uint64 // the other direction
	next  uint64
}

// firstInvented is the first number that no file system uses.
const firstInvented = 1 << 63

// of returns the number that the sentry gets.
func (n *numbers) of(host uint64) uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.ofLocked(host)
}

func (n *numbers) ofLocked(host uint64) uint64 {
	if shown, ok := n.shown[host]; ok {
		return shown
	}
	return host
}

// replaced gives the number of a shared file to its copy.
func (n *numbers) replaced(original, copy uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(copy, n.ofLocked(original))
}

// created records a new file.
func (n *numbers) created(host uint64) {
	n.mu.RLock()
	_, old := n.shown[host]
	_, taken := n.taken[host]
	n.mu.RUnlock()
	if !old && !taken {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(host)
	if _, taken := n.taken[host]; taken {
		n.next++
		n.set(host, firstInvented+n.next)
	}
}

func (n *numbers) set(host, shown uint64) {
	if n.shown == nil {
		n.shown, n.taken = map[uint64]uint64{}, map[uint64]uint64{}
	}
	n.drop(host)
	n.shown[host], n.taken[shown] = shown, host
}

// drop removes the file that had this host number before.
func (n *numbers) drop(host uint64) {
	if shown, ok := n.shown[host]; ok {
		delete(n.shown, host)
		delete(n.taken, shown)
	}
}
