package network

import (
	"net"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// maxFrame is the largest frame on a link, in bytes.
const maxFrame = header.EthernetMinimumSize + MTU

// link is the near end of a machine's link, as what the stack sends frames by and gets them from. A frame is a packet of the socket's.
type link struct {
	conn   net.Conn
	mac    tcpip.LinkAddress
	accept func(frame []byte) bool // whether the stack is to have a frame of the machine's

	mu         sync.Mutex
	dispatcher stack.NetworkDispatcher
	reading    sync.WaitGroup

	writing sync.Mutex
	frame   [maxFrame]byte // that is written
}

var _ stack.LinkEndpoint = (*link)(nil)

// read gives the stack what the machine sends, until the link is closed.
func (l *link) read() {
	frame := make([]byte, maxFrame)
	for {
		n, err := l.conn.Read(frame)
		if err != nil || n == 0 { // no frame is empty: the other end is gone
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

// WritePackets sends frames. A machine that takes none makes it wait, and harms nobody but itself.
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
		if _, err := l.conn.Write(l.frame[:n]); err != nil {
			return i, &tcpip.ErrClosedForSend{}
		}
	}
	return all.Len(), nil
}

// write sends one frame that was made beside the stack.
func (l *link) write(frame []byte) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.conn.Write(frame)
}

// Attach has the frames go to a dispatcher, or to none.
func (l *link) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	first := l.dispatcher == nil && d != nil
	l.dispatcher = d
	l.mu.Unlock()
	if first {
		l.reading.Go(l.read)
	}
}

// IsAttached tells whether frames go anywhere.
func (l *link) IsAttached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dispatcher != nil
}

// Wait waits for the end of read.
func (l *link) Wait() { l.reading.Wait() }

// Close ends the link.
func (l *link) Close() { l.conn.Close() }

// MTU is that of frames: the Ethernet endpoint over this one takes its header from it.
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
