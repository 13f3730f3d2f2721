package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
)

// MaxPorts is the largest number of ports that a service can publish.
const MaxPorts = 32

// CheckPorts returns an error if the ports can't be published.
func CheckPorts(ports []store.Port) error {
	wrong := func(format string, args ...any) error { return fault.Newf(fault.Invalid, format, args...) }
	if len(ports) > MaxPorts {
		return wrong("%d ports: a service can publish at most %d", len(ports), MaxPorts)
	}
	for i, p := range ports {
		if p.Guest < 1 || p.Guest > 65535 || p.Host < 0 || p.Host > 65535 {
			return wrong("%d:%d are not ports: they must be 1 to 65535", p.Host, p.Guest)
		}
		for _, other := range ports[:i] {
			if other.Guest == p.Guest {
				return wrong("port %d is published twice", p.Guest)
			}
			if other.Host == p.Host && p.Host != 0 {
				return wrong("port %d of the host is given for two ports", p.Host)
			}
		}
	}
	return nil
}

// NetworkLogBytes is the approximate number of bytes that are kept of a network log.
const NetworkLogBytes = 4 << 20

// ReadNetworkLog parses the records of a network log. It skips invalid lines. For example, the last
// line is incomplete if its writer was killed.
func ReadNetworkLog(text []byte) (all []network.Record) {
	for line := range bytes.Lines(text) {
		var r network.Record
		if json.Unmarshal(line, &r) == nil && !r.Time.IsZero() {
			all = append(all, r)
		}
	}
	return all
}

// Connections returns the open connections of the machine's network.
func (c *Client) Connections(ctx context.Context) ([]network.Record, error) {
	answer, err := c.rpc.Connections(ctx, connect.NewRequest(&supervisorv1.ConnectionsRequest{}))
	if err != nil {
		return nil, fromWire(ctx, err)
	}
	var all []network.Record
	for _, o := range answer.Msg.Open {
		a, _ := netip.ParseAddr(o.Address)
		all = append(all, network.Record{Time: time.Unix(0, o.UnixNanos), Protocol: o.Protocol, Name: o.Name, Address: a, Port: uint16(o.Port), Times: 1})
	}
	return all, nil
}

// portsOf encodes ports for a request.
func portsOf(ports []store.Port) (all []*supervisorv1.Port) {
	for _, p := range ports {
		all = append(all, &supervisorv1.Port{Guest: uint32(p.Guest), Host: uint32(p.Host)})
	}
	return all
}

// PortsFrom decodes the ports of a request. It returns an error if they can't be published.
func PortsFrom(asked []*supervisorv1.Port) (all []store.Port, err error) {
	for _, p := range asked {
		all = append(all, store.Port{Guest: int(p.Guest), Host: int(p.Host)})
	}
	return all, CheckPorts(all)
}
