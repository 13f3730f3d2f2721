package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
)

// NetworkLogBytes is about how much of the log of a network is kept.
const NetworkLogBytes = 4 << 20

// NetworkRecord is a line of the log.
type NetworkRecord struct {
	Time     time.Time     `json:"time"`
	Took     time.Duration `json:"took,omitempty"`
	Protocol string        `json:"protocol"`
	Name     string        `json:"name,omitempty"`
	Address  netip.Addr    `json:"address,omitzero"`
	Port     uint16        `json:"port,omitempty"`
	Sent     int64         `json:"sent,omitempty"`
	Received int64         `json:"received,omitempty"`
	Refused  string        `json:"refused,omitempty"`
	Error    string        `json:"error,omitempty"`
	Times    int           `json:"times,omitempty"`
}

// ReadNetworkLog reads the records of a log. A line that is none, such as the last one of a writer that was killed, is left out.
func ReadNetworkLog(text []byte) (all []network.Record) {
	for line := range bytes.Lines(text) {
		var r NetworkRecord
		if json.Unmarshal(line, &r) == nil && !r.Time.IsZero() {
			all = append(all, network.Record(r))
		}
	}
	return all
}

// Connections gives those that are open on the machine's network.
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

// portsOf is ports as they are asked for.
func portsOf(ports []store.Port) (all []*supervisorv1.Port) {
	for _, p := range ports {
		all = append(all, &supervisorv1.Port{Guest: uint32(p.Guest), Host: uint32(p.Host)})
	}
	return all
}
