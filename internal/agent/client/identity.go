package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Identity is what makes a machine its own.
type Identity struct {
	MachineID string // 32 lower-case hex digits
	Hostname  string
	Network   *Network // nil: the machine has no link
	FreshRoot bool     // its root is the environment as it is: host keys in it are removed
	Held      bool     // processes that were held (Hold) stay so until Thaw
}

// Network is what a machine's one network interface is to be, and who resolves names for it.
type Network struct {
	MAC      net.HardwareAddr
	Address  netip.Prefix // IPv4, of the machine, with the bits of its network
	Gateway  netip.Addr   // in that network
	Address6 netip.Prefix // the same of IPv6; the zero value: none
	Gateway6 netip.Addr
	DNS      []netip.Addr // 1 to 3
	MTU      int          // 1280 to 65535
}

// NewIdentity makes an identity with a host name and a random machine-id.
func NewIdentity(hostname string) Identity {
	var id [16]byte
	rand.Read(id[:])
	return Identity{MachineID: hex.EncodeToString(id[:]), Hostname: hostname}
}

// entropySize is what the kernel's generator takes in at once.
const entropySize = 64

// Renew gives the machine the host's clock, fresh entropy and an identity. Nothing runs in a session before it has succeeded.
func (c *Client) Renew(ctx context.Context, id Identity) error {
	_, err := c.renew(ctx, id)
	return err
}

const (
	// closeClock is how much a clock may be behind that is to be right, and closeTries how often it is set for that at most, on a host that is too busy for it.
	closeClock = 20 * time.Millisecond
	closeTries = 4
)

// RenewClosely is Renew of a machine whose programs have gone by another clock before: it is told the time again where the telling took long.
func (c *Client) RenewClosely(ctx context.Context, id Identity) error {
	for range closeTries {
		if behind, err := c.renew(ctx, id); err != nil || behind <= closeClock {
			return err
		}
	}
	return nil
}

// renew renews the machine, and tells how much its clock may be behind.
func (c *Client) renew(ctx context.Context, id Identity) (behind time.Duration, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		behind, err = renew(ctx, s, id)
		return err
	})
	if err != nil {
		return 0, fault.Wrap(err, "renew the machine", id.Hostname)
	}
	c.mu.Lock()
	c.identity = &id
	c.mu.Unlock()
	return behind, nil
}

// renew tells how much the clock may be behind: as much as the words took to get there, which is no more than both ways took.
func renew(ctx context.Context, s *session, id Identity) (behind time.Duration, err error) {
	entropy := make([]byte, entropySize)
	rand.Read(entropy)
	answer, err := s.rpc.Renew(ctx, connect.NewRequest(&agentv1.RenewRequest{
		UnixNanos: time.Now().UnixNano(), Entropy: entropy, MachineId: id.MachineID, Hostname: id.Hostname, Network: id.Network.message(), FreshRoot: id.FreshRoot,
		Held: id.Held,
	}))
	if err != nil {
		return 0, err
	}
	return time.Since(time.Unix(0, answer.Msg.UnixNanos)), nil
}

// message is how a network is told.
func (n *Network) message() *agentv1.Network {
	if n == nil {
		return nil
	}
	m := &agentv1.Network{
		Mac: n.MAC, Address: told(n.Address), Gateway: told(n.Gateway), Address6: told(n.Address6), Gateway6: told(n.Gateway6), Mtu: uint32(n.MTU),
	}
	for _, server := range n.DNS {
		m.Dns = append(m.Dns, told(server))
	}
	return m
}

// told is an address as text; empty: there is none.
func told[A interface {
	IsValid() bool
	String() string
}](a A) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
