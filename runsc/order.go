package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"gvisor.dev/gvisor/runsc/version"
)

// protocol is the version of what a machine and its owner say to each other. The owner (internal/machine/gvisor in pyro) has the same constant.
const protocol = 7

// The files that a machine inherits from its owner, by number.
const (
	controlFD = 3 + iota // a stream socket to the owner: the order, then events and commands, one JSON object a line
	agentFD              // an EROFS image: the machine's root, with the agent
	envFD                // an EROFS image: the environment
	layerFD              // an empty file: what the machine changes of the environment
	linkInFD             // a pipe: the link, towards the agent
	linkOutFD            // a pipe: the link, from the agent
	programFD            // this program, by which it was started
	volumeFD             // where the order says so, a stream socket to the gofer of the volume
	rootFD               // where the order says so, what an earlier machine had changed of the environment (package layer)
	stateFD              // and the two after it, where the order says so: what a machine was saved as (save.go)
)

// order says what machine to be.
type order struct {
	Protocol   int      `json:"protocol"`
	ID         string   `json:"id"`
	VCPUs      int      `json:"vcpus"`       // that the machine sees
	MemBytes   uint64   `json:"mem_bytes"`   // that the machine sees
	LayerBytes int64    `json:"layer_bytes"` // that the layer may grow to
	Tasks      int      `json:"tasks"`       // processes and threads that it may have beside the agent's
	Args       []string `json:"args"`        // the agent's
	Env        []string `json:"env"`         // the agent's
	Storage    bool     `json:"storage"`     // there is a volume, and the machine can be asked to keep its root
	Root       bool     `json:"root"`        // there is what an earlier machine had changed of the environment
	Restore    bool     `json:"restore"`     // go on from what a machine was saved as, once the owner says so, instead of starting the agent
	Network    *network `json:"network"`     // the machine's link, whose socket comes with the order; nil: it has none

	link *os.File // that socket
}

// event is what a machine tells its owner.
type event struct {
	Event   string `json:"event"` // started, failed, or what came of a command
	Error   string `json:"error,omitempty"`
	Hint    string `json:"hint,omitempty"` // what may mend it
	Version string `json:"version,omitempty"`
}

// command is what an owner has a started machine do. Files may come with it.
type command struct {
	Do string `json:"do"`
}

// deed is how a machine does what a command says, and the event of its having been done.
type deed struct {
	done string
	do   func(files []*os.File) error
}

// owner is the connection to a machine's owner.
type owner struct {
	*connection
	lines *json.Decoder
}

// meet reads the order.
func meet() (*owner, order, error) {
	connection, err := connect(controlFD)
	if err != nil {
		return nil, order{}, fmt.Errorf("descriptor %d is not a socket to an owner: %w", controlFD, err)
	}
	c := &owner{connection, json.NewDecoder(connection)}
	var o order
	if err := c.lines.Decode(&o); err != nil {
		return nil, o, fmt.Errorf("read the order: %w", err)
	}
	if files := connection.takeFiles(); len(files) > 0 {
		o.link = files[0]
	} else if o.Network != nil {
		return c, o, errors.New("the order came without the link")
	}
	if o.Protocol != protocol {
		return c, o, fmt.Errorf("%w: it speaks %d, and is asked for %d", errProtocol, protocol, o.Protocol)
	}
	return c, o, nil
}

// tell tells the owner what has happened.
func (c *owner) tell(name string, err error) {
	e := event{Event: name, Version: version.Version()}
	if err != nil {
		e.Event, e.Error, e.Hint = "failed", err.Error(), hint(err)
	}
	b, _ := json.Marshal(e)
	c.Write(append(b, '\n'))
}

var errProtocol = errors.New("another protocol")

// hint gives what may mend an error, where that is known.
func hint(err error) string {
	switch {
	case errors.Is(err, errProtocol):
		return "make build, so that pyro-runsc is of the same version as pyro"
	case errors.Is(err, fs.ErrPermission):
		return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; a container needs to be run with " +
			"--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
	}
	return ""
}

// await waits for the owner to say one thing.
func (c *owner) await(what string) error {
	var asked command
	if err := c.lines.Decode(&asked); err != nil {
		return err
	}
	if asked.Do != what {
		return fmt.Errorf("it is told %s before %s", strconv.Quote(asked.Do), what)
	}
	return nil
}

// obey does what the owner asks for, one after the other, until the owner is gone.
func (c *owner) obey(deeds map[string]deed) {
	for {
		var asked command
		if err := c.lines.Decode(&asked); err != nil {
			return
		}
		if d, ok := deeds[asked.Do]; ok {
			c.tell(d.done, d.do(c.takeFiles()))
		} else {
			c.tell("", fmt.Errorf("unknown command %s", strconv.Quote(asked.Do)))
		}
	}
}
