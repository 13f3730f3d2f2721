package network

import (
	"maps"
	"slices"
	"sync"
)

// registry keeps what there is at the moment, such as connections, until it is closed. The zero value is empty. It is safe for concurrent use.
type registry[T any] struct {
	mu     sync.Mutex
	all    map[int]T
	next   int
	closed bool
}

// add keeps something until remove is called. A closed registry takes nothing: ok is false.
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

// list gives what there is now, in no order.
func (r *registry[T]) list() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.all))
}

// close gives what there was, and takes nothing more.
func (r *registry[T]) close() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.closed, r.all = true, nil
	return slices.Collect(maps.Values(all))
}
