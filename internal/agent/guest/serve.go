package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// portName is what the link's virtio-serial port is called.
const portName = "agent"

// Serve is the agent's part: it serves the machine's link for ever.
func Serve(version string) error {
	if err := loopbackUp(); err != nil {
		return err
	}
	parameters, err := kernelParameters()
	if err != nil {
		return err
	}
	place, err := newPlace(true, !slices.Contains(parameters, bareParameter))
	if err != nil {
		return err
	}
	if _, err := place.now(); err != nil && !errors.Is(err, agent.ErrNoRoot) {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	server := agent.New(place, version)
	if w, err := openWindow(); err != nil {
		return err
	} else if w != nil {
		server.Share(w)
	}
	return server.Serve(port)
}

// openWindow opens the window that the machine shares with its owner; nil where there is none. It is read and written without a cache, as its other end is.
func openWindow() (*os.File, error) {
	device, err := findDisk(windowSerial)
	if err != nil || device == "" {
		return nil, err
	}
	return os.OpenFile(device, os.O_RDWR|unix.O_DIRECT, 0)
}

// openPort opens the link's port.
func openPort() (*port, error) {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil || strings.TrimSpace(string(b)) != portName {
				continue
			}
			// Not blocking, so that Go's poller waits: a blocked write would spin the processor in the kernel.
			f, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR|unix.O_NONBLOCK, 0)
			if err == nil {
				return &port{f}, nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		if time.Since(began) > devicePatience {
			return nil, fmt.Errorf("no virtio-serial port is called %q", portName)
		}
	}
}

// port is the link's port as a stream. Where nobody is at the other end, a read waits until somebody is.
type port struct{ device }

// device is what a port takes of its file. The rest, such as WriteTo, would bypass the port's Read.
type device interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// absentEvery is how often a port is asked whether somebody is at its other end.
const absentEvery = 10 * time.Millisecond

func (p *port) Read(b []byte) (int, error) {
	for {
		n, err := p.device.Read(b)
		if n > 0 || err != io.EOF {
			return n, err
		}
		time.Sleep(absentEvery)
	}
}

func (p *port) LocalAddr() net.Addr  { return portAddr{} }
func (p *port) RemoteAddr() net.Addr { return portAddr{} }

type portAddr struct{}

func (portAddr) Network() string { return "virtio-serial" }
func (portAddr) String() string  { return portName }

// loopbackUp brings the loopback interface up: a machine has it whatever its network policy is.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifreq.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("SIOCSIFFLAGS", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq))
}
