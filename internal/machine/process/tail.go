package process

import "io"

// Tail stores the last bytes that were written to it. It is safe for concurrent use.
type Tail struct {
	last chan []byte // contains the only slice, and so also serves as its lock
	size int
}

var _ io.Writer = (*Tail)(nil)

// NewTail creates a Tail that stores up to size bytes.
func NewTail(size int) *Tail {
	t := &Tail{last: make(chan []byte, 1), size: size}
	t.last <- nil
	return t
}

func (t *Tail) Write(p []byte) (int, error) {
	kept := append(<-t.last, p...)
	if over := len(kept) - t.size; over > 0 {
		kept = append([]byte(nil), kept[over:]...)
	}
	t.last <- kept
	return len(p), nil
}

func (t *Tail) String() string {
	kept := <-t.last
	text := string(kept)
	t.last <- kept
	return text
}
