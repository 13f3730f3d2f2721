package agent

import (
	"errors"
	"runtime"
)

// Thread is an operating system thread of its own. What is done on it may change what belongs to a thread: its namespaces, its root folder. Processes started
// from it inherit that, and get their parent-death signal when it ends.
type Thread struct {
	work chan func()
	stop chan struct{}
	done chan struct{}
}

// errThreadGone says that the thread has been stopped.
var errThreadGone = errors.New("the thread has ended")

// NewThread starts a thread and calls enter on it first. Where that fails the thread ends.
func NewThread(enter func() error) (*Thread, error) {
	t := &Thread{work: make(chan func()), stop: make(chan struct{}), done: make(chan struct{})}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its state with it
		defer close(t.done)
		err := enter()
		entered <- err
		if err != nil {
			return
		}
		for {
			select {
			case f := <-t.work:
				f()
			case <-t.stop:
				return
			}
		}
	}()
	if err := <-entered; err != nil {
		<-t.done
		return nil, err
	}
	return t, nil
}

// Do calls f on the thread.
func (t *Thread) Do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-t.done:
		return errThreadGone
	}
}

// Stop ends the thread: a Do that comes later fails. It must be called once.
func (t *Thread) Stop() {
	close(t.stop)
	<-t.done
}
