package process

import "io"

// Tail keeps the last bytes written to it. It is safe for concurrent use.
type Tail struct {
	kept chan []byte // holds the one slice: a lock that carries its data
	size int
}

var _ io.Writer = (*Tail)(nil)

// NewTail makes a Tail of size bytes.
func NewTail(size int) *Tail {
	t := &Tail{kept: make(chan []byte, 1), size: size}
	t.kept <- nil
	return t
}

func (t *Tail) Write(p []byte) (int, error) {
	kept := append(<-t.kept, p...)
	if over := len(kept) - t.size; over > 0 {
		kept = append([]byte(nil), kept[over:]...)
	}
	t.kept <- kept
	return len(p), nil
}

func (t *Tail) String() string {
	kept := <-t.kept
	text := string(kept)
	t.kept <- kept
	return text
}
