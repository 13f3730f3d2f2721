package link

import (
	"errors"
	"net"
	"os"
	"time"
)

// pipes combines two pipes into a stream.
type pipes struct{ from, to *os.File }

// NewPipes returns a stream that consists of two pipes, one for each direction. Close closes both
// pipes.
func NewPipes(from, to *os.File) net.Conn { return pipes{from, to} }

func (p pipes) Read(b []byte) (int, error)  { return p.from.Read(b) }
func (p pipes) Write(b []byte) (int, error) { return p.to.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.from.Close(), p.to.Close()) }
func (p pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}
func (p pipes) SetReadDeadline(t time.Time) error  { return p.from.SetReadDeadline(t) }
func (p pipes) SetWriteDeadline(t time.Time) error { return p.to.SetWriteDeadline(t) }
func (p pipes) LocalAddr() net.Addr                { return pipeAddr{} }
func (p pipes) RemoteAddr() net.Addr               { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
