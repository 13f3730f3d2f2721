package remote

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// The paths here are those of the machine's whole file system, absolute.

// ReadMachineFile copies a regular file.
func (c *Client) ReadMachineFile(ctx context.Context, path string, to io.Writer) error {
	return c.call(ctx, http.MethodGet, MachineFilePath, url.Values{"path": {path}}, nil, copying(to))
}

// WriteMachineFile replaces a file with all that a reader gives. With an error of the reader, or of anything else, the file stays as it was. Missing folders are made.
func (c *Client) WriteMachineFile(ctx context.Context, path string, from io.Reader) error {
	return c.call(ctx, http.MethodPut, MachineFilePath, url.Values{"path": {path}}, from, copying(io.Discard))
}

// RemoveMachinePath removes what is at a path with all below it.
func (c *Client) RemoveMachinePath(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, MachineFilePath, url.Values{"path": {path}}, nil, copying(io.Discard))
}

// MakeMachineFolder makes a folder, and those above it that are missing.
func (c *Client) MakeMachineFolder(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodPut, MachineFolderPath, url.Values{"path": {path}}, nil, copying(io.Discard))
}

// ListMachine gives what is at a path, and what is in it to a depth; 0: that alone, and a link as such.
func (c *Client) ListMachine(ctx context.Context, path string, depth int, each func(listing.Entry) error) error {
	return c.list(ctx, MachineListPath, url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}}, each)
}

// Usage is what a machine takes.
type Usage struct {
	CPU       time.Duration `json:"cpu_ns"`     // of the host's processors, since its start
	MemBytes  int64         `json:"mem_bytes"`  // used in the machine
	DiskBytes int64         `json:"disk_bytes"` // that its folder takes on the host

	// Processes are those that CPU is of, and Supervisor is the one that answers. As long as their clocks
	// stand still (ProcessorTime), the rest of this does not change. Processes is nil if there are too many.
	Processes  []int `json:"processes,omitempty"`
	Supervisor int   `json:"supervisor,omitempty"`
}

// WriteUsage writes it as an answer.
func WriteUsage(w io.Writer, u Usage) error { return json.NewEncoder(w).Encode(u) }

// Usage tells what the machine takes. It is no activity.
func (c *Client) Usage(ctx context.Context) (u Usage, err error) {
	err = c.call(ctx, http.MethodGet, UsagePath, nil, nil, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, maxDrained)).Decode(&u)
	})
	return u, err
}
