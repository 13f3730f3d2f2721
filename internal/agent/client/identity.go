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

// Identity distinguishes a machine from others that start from the same template. It includes the
// network configuration.
type Identity struct {
	MachineID string // 32 lower-case hex digits
	Hostname  string
	Network   *Network // nil without a network
	FreshRoot bool     // the root is an unchanged environment, so Renew removes its SSH host keys
	Held      bool     // processes that Hold stopped stay stopped until Thaw
}

// Network is the configuration of the machine's network interface, with the addresses of its name
// servers.
type Network struct {
	MAC      net.HardwareAddr
	Address  netip.Prefix // IPv4 address of the machine, with prefix length
	Gateway  netip.Addr   // IPv4 address in the network of Address
	Address6 netip.Prefix // IPv6 address; the zero value without IPv6
	Gateway6 netip.Addr
	DNS      []netip.Addr // 1 to 3 name servers
	MTU      int          // 1280 to 65535
}

// NewIdentity returns an identity with a host name and a random machine ID.
func NewIdentity(hostname string) Identity {
	var id [16]byte
	rand.Read(id[:])
	return Identity{MachineID: hex.EncodeToString(id[:]), Hostname: hostname}
}

// entropySize is the size of the seed for the kernel's random number generator, in bytes.
const entropySize = 64

// Renew gives the machine the host's clock, fresh entropy and an identity. In each session, the
// agent starts processes only after Renew has succeeded.
func (c *Client) Renew(ctx context.Context, id Identity) error {
	_, err := c.renew(ctx, id)
	return err
}

const (
	// maxClockDelay is the largest accepted delay of the clock. On a busy host every delay can be
	// larger, so maxRenewals limits the attempts.
	maxClockDelay = 20 * time.Millisecond
	maxRenewals   = 4
)

// RenewPrecisely is like Renew, for a machine with running programs. It calls Renew again while the
// clock might be late by more than 20 ms. It makes at most four calls.
func (c *Client) RenewPrecisely(ctx context.Context, id Identity) error {
	for range maxRenewals {
		if behind, err := c.renew(ctx, id); err != nil || behind <= maxClockDelay {
			return err
		}
	}
	return nil
}

// renew renews the machine, and returns an upper bound of its clock's delay.
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

// renew returns an upper bound of the clock's delay. The agent sets the clock between the start and
// the end of the call. So the delay is at most the duration of the call.
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

// message returns the network as a protocol message, or nil if there is none.
func (n *Network) message() *agentv1.Network {
	if n == nil {
		return nil
	}
	m := &agentv1.Network{
		Mac: n.MAC, Address: addrString(n.Address), Gateway: addrString(n.Gateway), Address6: addrString(n.Address6), Gateway6: addrString(n.Gateway6), Mtu: uint32(n.MTU),
	}
	for _, server := range n.DNS {
		m.Dns = append(m.Dns, addrString(server))
	}
	return m
}

// addrString returns an address as text, or the empty string if it is invalid.
func addrString[A interface {
	IsValid() bool
	String() string
}](a A) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
