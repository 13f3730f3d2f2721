package network

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// maxFrame is the maximum size of a frame on a link, in bytes.
const maxFrame = header.EthernetMinimumSize + MTU

// link is the gateway's end of a machine's link. It implements stack.LinkEndpoint on a packet
// socket, with one frame per packet.
type link struct {
	conn   net.Conn
	mac    tcpip.LinkAddress
	accept func(frame []byte) bool // reports whether the stack should get a frame from the machine

	mu         sync.Mutex
	dispatcher stack.NetworkDispatcher
	reading    sync.WaitGroup

	writing sync.Mutex
	frame   [maxFrame]byte // buffer for the frame being written
}

var _ stack.LinkEndpoint = (*link)(nil)

// read delivers frames from the machine to the stack until the link is closed.
func (l *link) read() {
	frame := make([]byte, maxFrame)
	for {
		n, err := l.conn.Read(frame)
		if err != nil || n == 0 { // frames are never empty, so the other end has closed
			return
		}
		if n < header.EthernetMinimumSize || !l.accept(frame[:n]) {
			continue
		}
		l.mu.Lock()
		d := l.dispatcher
		l.mu.Unlock()
		if d == nil {
			return
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame[:n])})
		d.DeliverNetworkPacket(0, p)
		p.DecRef()
	}
}

// WritePackets sends frames. It blocks while the machine does not read. That delays only this
// machine.
func (l *link) WritePackets(all stack.PacketBufferList) (int, tcpip.Error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	for i, p := range all.AsSlice() {
		n := 0
		for _, part := range p.AsSlices() {
			if n+len(part) > maxFrame {
				return i, &tcpip.ErrMessageTooLong{}
			}
			n += copy(l.frame[n:], part)
		}
		if _, err := l.conn.Write(l.frame[:n]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return i, &tcpip.ErrClosedForSend{}
		}
	}
	return all.Len(), nil
}

// unreadTimeout is how long dropUnread lets the stack wait for the machine.
const unreadTimeout = time.Second

// dropUnread lets the stack drop frames that the machine does not read. A paused machine reads
// nothing, and a write that waits for it locks a connection of the stack. The caller must call end.
func (l *link) dropUnread() (end func()) {
	l.conn.SetWriteDeadline(time.Now().Add(unreadTimeout))
	return func() { l.conn.SetWriteDeadline(time.Time{}) }
}

// write sends a frame that was built outside the stack.
func (l *link) write(frame []byte) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.conn.Write(frame)
}

// Attach sets the receiver of the frames. If d is nil, it removes the receiver.
func (l *link) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	first := l.dispatcher == nil && d != nil
	l.dispatcher = d
	l.mu.Unlock()
	if first {
		l.reading.Go(l.read)
	}
}

// IsAttached reports whether the frames have a receiver.
func (l *link) IsAttached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dispatcher != nil
}

// Wait blocks until read has returned.
func (l *link) Wait() { l.reading.Wait() }

// Close closes the link.
func (l *link) Close() { l.conn.Close() }

// MTU returns the maximum frame size. The Ethernet endpoint above the link subtracts the size of
// its header.
func (l *link) MTU() uint32                                  { return maxFrame }
func (l *link) SetMTU(uint32)                                {}
func (l *link) MaxHeaderLength() uint16                      { return 0 }
func (l *link) LinkAddress() tcpip.LinkAddress               { return l.mac }
func (l *link) SetLinkAddress(tcpip.LinkAddress)             {}
func (l *link) Capabilities() stack.LinkEndpointCapabilities { return 0 }
func (l *link) ARPHardwareType() header.ARPHardwareType      { return header.ARPHardwareNone }
func (l *link) AddHeader(*stack.PacketBuffer)                {}
func (l *link) ParseHeader(*stack.PacketBuffer) bool         { return true }
func (l *link) SetOnCloseAction(func())                      {}
