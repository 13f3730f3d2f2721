package pyro

import (
	"io"
	"sync"
)

// pipeBuffer is the capacity of a pipe in bytes, the same as the default capacity of a Linux pipe.
const pipeBuffer = 64 << 10

// outputPipe is a pipe with a buffer. After Close, writes discard their data, so that the command
// does not fail.
type outputPipe struct {
	mu      sync.Mutex
	changed sync.Cond
	held    []byte
	ended   bool // the command has ended
	closed  bool // the reader has called Close
}

func newOutputPipe() *outputPipe {
	p := &outputPipe{}
	p.changed.L = &p.mu
	return p
}

// Write blocks until all of b is in the buffer, or the pipe is closed.
func (p *outputPipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rest := b; len(rest) > 0; {
		for len(p.held) == pipeBuffer && !p.closed {
			p.changed.Wait()
		}
		if p.closed {
			break
		}
		n := min(len(rest), pipeBuffer-len(p.held))
		p.held, rest = append(p.held, rest[:n]...), rest[n:]
		p.changed.Broadcast()
	}
	return len(b), nil
}

// Read returns io.EOF when the command has ended and all its output has been read.
func (p *outputPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.held) == 0 && !p.ended && !p.closed && len(b) > 0 {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, io.ErrClosedPipe
	case len(p.held) == 0 && p.ended:
		return 0, io.EOF
	}
	n := copy(b, p.held)
	p.held = append(p.held[:0], p.held[n:]...)
	p.changed.Broadcast()
	return n, nil
}

// Close discards the rest of the output.
func (p *outputPipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.held = true, nil
	p.changed.Broadcast()
	return nil
}

// end marks the end of the output.
func (p *outputPipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
}

// pipes are the pipes of one command.
type pipes struct {
	stdin   *io.PipeReader
	outputs []*outputPipe
}

// end closes the input pipe and marks the end of the outputs. It is called when the command has
// ended or could not be started.
func (p *pipes) end() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	for _, o := range p.outputs {
		o.end()
	}
}

// StdinPipe returns a pipe to the standard input. Close the pipe to end the input.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, c.errState("Stdin is already set")
	}
	if c.begun {
		return nil, c.errState("StdinPipe must be called before Start")
	}
	r, w := io.Pipe()
	c.Stdin, c.pipes.stdin = r, r
	return w, nil
}

// StdoutPipe returns a pipe from the standard output. Read the pipe to its end before you call
// Wait: if the pipe is full, the command blocks until you read. After Close, the rest of the output
// is discarded.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.outputPipe("Stdout", &c.Stdout) }

// StderrPipe returns a pipe from the standard error, like StdoutPipe.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.outputPipe("Stderr", &c.Stderr) }

func (c *Cmd) outputPipe(name string, to *io.Writer) (io.ReadCloser, error) {
	if *to != nil {
		return nil, c.errState("%s is already set", name)
	}
	if c.begun {
		return nil, c.errState("%sPipe must be called before Start", name)
	}
	p := newOutputPipe()
	*to = p
	c.pipes.outputs = append(c.pipes.outputs, p)
	return p, nil
}
