package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
	"gvisor.dev/gvisor/runsc/version"
)

// These are the descriptors of the files that a machine inherits from its owner.
const (
	controlFD = 3 + iota // Stream socket to the owner. Each line is a JSON object.
	agentFD              // EROFS image with the agent, the machine's root.
	envFD                // EROFS image of the environment.
	layerFD              // Empty file for the changes to the environment.
	linkInFD             // Pipe of the link, towards the agent.
	linkOutFD            // Pipe of the link, from the agent.
	programFD            // The program itself.
	volumeFD             // Stream socket to the volume's gofer, if there is a volume.
	rootFD               // Archive of earlier changes to the environment, if there are any (package layer).
	stateFD              // First of three files of a saved machine, if there is one (save.go).
)

// startConfig is a machine's start config, together with its link.
type startConfig struct {
	protocol.StartConfig
	link *os.File // socket whose packets are Ethernet frames, or nil if there is no network
}

// command is a function for a command of the owner, and the event that the machine sends after the
// function succeeds.
type command struct {
	done string
	do   func(files []*os.File) error
}

// owner is the connection to a machine's owner.
type owner struct {
	*connection
	lines *json.Decoder
}

// readConfig connects to the owner and reads the start config.
func readConfig() (*owner, startConfig, error) {
	connection, err := connect(controlFD)
	if err != nil {
		return nil, startConfig{}, fmt.Errorf("descriptor %d is not a socket to an owner: %w", controlFD, err)
	}
	c := &owner{connection, json.NewDecoder(connection)}
	var o startConfig
	if err := c.lines.Decode(&o.StartConfig); err != nil {
		return nil, o, fmt.Errorf("read the start config: %w", err)
	}
	if files := connection.takeFiles(); len(files) > 0 {
		o.link = files[0]
	} else if o.Network != nil {
		return c, o, errors.New("the start config has no network link")
	}
	if o.Protocol != protocol.Version {
		return c, o, fmt.Errorf("%w: pyro-runsc has version %d, and pyro has %d", errProtocol, protocol.Version, o.Protocol)
	}
	return c, o, nil
}

// maxError is the maximum size of an error in an event, in bytes. JSON makes it up to six times
// longer.
const maxError = 4 << 10

// shorten returns the text of an error. If the text is too long, shorten returns the text of the
// error that it wraps. After a failed save, gVisor's error contains stack traces and a dump of the
// objects that it did not write.
func shorten(err error) string {
	text := err.Error()
	for len(text) > maxError {
		if err = errors.Unwrap(err); err == nil {
			return text[:maxError]
		}
		text = err.Error()
	}
	return text
}

// send sends an event to the owner.
func (c *owner) send(name string, err error) {
	e := protocol.Event{Event: name, Version: version.Version()}
	if err != nil {
		e.Event, e.Error, e.Hint = "failed", shorten(err), hint(err)
	}
	b, _ := json.Marshal(e)
	c.Write(append(b, '\n'))
}

var errProtocol = errors.New("another protocol")

// hint returns how to fix an error, if that is known.
func hint(err error) string {
	switch {
	case errors.Is(err, errProtocol):
		return "make build, so that pyro-runsc has the same version as pyro"
	case errors.Is(err, fs.ErrPermission):
		return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; a container needs to be run with " +
			"--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
	}
	return ""
}

// await waits for a given command from the owner.
func (c *owner) await(what string) error {
	var asked protocol.Command
	if err := c.lines.Decode(&asked); err != nil {
		return err
	}
	if asked.Do != what {
		return fmt.Errorf("got command %s, want %s", strconv.Quote(asked.Do), what)
	}
	return nil
}

// serve runs the owner's commands, one at a time, until the owner closes the connection.
func (c *owner) serve(commands map[string]command) {
	for {
		var asked protocol.Command
		if err := c.lines.Decode(&asked); err != nil {
			return
		}
		if d, ok := commands[asked.Do]; ok {
			c.send(d.done, d.do(c.takeFiles()))
		} else {
			c.send("", fmt.Errorf("unknown command %s", strconv.Quote(asked.Do)))
		}
	}
}
