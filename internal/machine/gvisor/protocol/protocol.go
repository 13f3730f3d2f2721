// Package protocol defines the messages between pyro and pyro-runsc. They are JSON objects, one per
// line, on a stream socket. The first message is a [StartConfig]. Then pyro sends commands, and the
// machine sends events. A message can carry open files.
//
// pyro-runsc is a separate Go module. So this package must import only the standard library.
package protocol

import (
	"net"
	"net/netip"
)

// Version is the version of the messages. Both sides must have the same version.
const Version = 8

// StartConfig configures a machine.
//
// Sizes are in bytes. LayerBytes is the maximum size of the layer. Tasks is the maximum number of
// processes and threads, not counting the agent's. A machine with Storage has a volume and can save
// its root. If Root is true, the machine starts with a root that an earlier machine saved. If
// Restore is true, the machine restores a checkpoint instead of starting the agent. The command
// "go" then starts the machine. If Network is not nil, the message carries the link as an open
// file. Otherwise there is no network.
type StartConfig struct {
	Protocol   int      `json:"protocol"` // Version of the sender
	ID         string   `json:"id"`
	VCPUs      int      `json:"vcpus"`
	MemBytes   uint64   `json:"mem_bytes"`
	LayerBytes int64    `json:"layer_bytes"` // maximum
	Tasks      int      `json:"tasks"`       // maximum
	Args       []string `json:"args"`        // command line of the agent
	Env        []string `json:"env"`         // environment of the agent
	Storage    bool     `json:"storage"`
	Root       bool     `json:"root"`
	Restore    bool     `json:"restore"`
	Network    *Network `json:"network,omitempty"`
}

// Network configures the only network interface of a machine.
type Network struct {
	MAC        net.HardwareAddr `json:"mac"`
	GatewayMAC net.HardwareAddr `json:"gateway_mac"`
	Address    netip.Prefix     `json:"address"`
	Gateway    netip.Addr       `json:"gateway"`
	Address6   netip.Prefix     `json:"address6"`
	Gateway6   netip.Addr       `json:"gateway6"`
	MTU        int              `json:"mtu"`
}

// MaxEvent is the maximum size of an encoded event, in bytes.
const MaxEvent = 64 << 10

// Event is a message from the machine.
type Event struct {
	Event   string `json:"event"` // "started", "failed", or the result of a command
	Error   string `json:"error,omitempty"`
	Hint    string `json:"hint,omitempty"`    // an action that might fix the error
	Version string `json:"version,omitempty"` // version of pyro-runsc
}

// Command is a message to a running machine.
type Command struct {
	Do string `json:"do"`
}
