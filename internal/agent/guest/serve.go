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

// portName is the name of the virtio-serial port that carries the link.
const portName = "agent"

// Serve runs the agent of a virtual machine. It serves the machine's link until an error occurs,
// and returns that error.
func Serve(version string) error {
	if err := loopbackUp(); err != nil {
		return err
	}
	parameters, err := kernelParameters()
	if err != nil {
		return err
	}
	env, err := newExecEnv(ofVirtualMachine, !slices.Contains(parameters, bareParameter))
	if err != nil {
		return err
	}
	if _, err := env.current(); err != nil && !errors.Is(err, agent.ErrNoRoot) {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	server := agent.New(env, version)
	if shared, err := openShared(); err != nil {
		return err
	} else if shared != nil {
		server.Share(shared)
	}
	return server.Serve(port)
}

// openShared opens the buffer that the machine shares with its supervisor. It returns nil if there
// is no such buffer. Neither side caches the buffer.
func openShared() (*os.File, error) {
	device, err := findDisk(sharedSerial)
	if err != nil || device == "" {
		return nil, err
	}
	return os.OpenFile(device, os.O_RDWR|unix.O_DIRECT, 0)
}

// openPort waits until the port of the link exists, and opens it.
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
			// O_NONBLOCK lets Go's poller do the waiting. A blocking write would spin in the
			// kernel.
			f, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR|unix.O_NONBLOCK, 0)
			if err == nil {
				return &port{f}, nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		if time.Since(began) > deviceTimeout {
			return nil, fmt.Errorf("there is no virtio-serial port %q", portName)
		}
	}
}

// port is the port of the link as a stream. If the other end is closed, Read waits until it is
// opened again.
type port struct{ device }

// device has only some methods of a file. With other methods, such as WriteTo, callers could bypass
// port.Read.
type device interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// reopenEvery is the interval at which Read checks whether the other end is open.
const reopenEvery = 10 * time.Millisecond

func (p *port) Read(b []byte) (int, error) {
	for {
		n, err := p.device.Read(b)
		if n > 0 || err != io.EOF {
			return n, err
		}
		time.Sleep(reopenEvery)
	}
}

func (p *port) LocalAddr() net.Addr  { return portAddr{} }
func (p *port) RemoteAddr() net.Addr { return portAddr{} }

type portAddr struct{}

func (portAddr) Network() string { return "virtio-serial" }
func (portAddr) String() string  { return portName }

// loopbackUp enables the loopback interface, which a machine has under every network policy.
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
