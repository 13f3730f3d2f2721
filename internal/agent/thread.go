package agent

import (
	"errors"
	"runtime"
)

// Thread is an operating system thread that runs functions. The functions can change the state of
// the thread, such as its namespaces or root folder. Processes that the functions start inherit
// this state. They get their parent-death signal when the thread ends.
type Thread struct {
	work chan func()
	stop chan struct{}
	done chan struct{}
}

// errThreadGone is the error of Do after Stop.
var errThreadGone = errors.New("the thread has ended")

// NewThread starts a thread that first calls enter. If enter fails, the thread ends and NewThread
// returns the error.
func NewThread(enter func() error) (*Thread, error) {
	t := &Thread{work: make(chan func()), stop: make(chan struct{}), done: make(chan struct{})}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
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

// Do calls f on the thread and returns the error from f.
func (t *Thread) Do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-t.done:
		return errThreadGone
	}
}

// Stop ends the thread. Call it only once. Later calls of Do fail.
func (t *Thread) Stop() {
	close(t.stop)
	<-t.done
}
