package network

import (
	"maps"
	"slices"
	"sync"
)

// registry is a set of values, such as open connections, that can be closed. The zero value is
// empty. It is safe for concurrent use.
type registry[T any] struct {
	mu     sync.Mutex
	all    map[int]T
	next   int
	closed bool
}

// add adds a value to the set. The value stays in the set until remove is called. If the registry
// is closed, ok is false.
func (r *registry[T]) add(v T) (remove func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return func() {}, false
	}
	if r.all == nil {
		r.all = map[int]T{}
	}
	r.next++
	key := r.next
	r.all[key] = v
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, key)
	}, true
}

// list returns the current values, in no particular order.
func (r *registry[T]) list() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.all))
}

// close empties the registry and returns its values. Later calls of add fail.
func (r *registry[T]) close() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.closed, r.all = true, nil
	return slices.Collect(maps.Values(all))
}
