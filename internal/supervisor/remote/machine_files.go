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
	"github.com/pyro-mcp/pyro/internal/content"
)

// Paths in this file are absolute paths in the machine's file system.

// ReadMachineFile copies the content of a regular file.
func (c *Client) ReadMachineFile(ctx context.Context, path string, to io.Writer) error {
	return c.call(ctx, http.MethodGet, MachineFilePath, url.Values{"path": {path}}, nil, copying(to))
}

// WriteMachineFile atomically replaces a file with the content of a reader. It creates missing
// folders.
func (c *Client) WriteMachineFile(ctx context.Context, path string, from io.Reader) error {
	return c.call(ctx, http.MethodPut, MachineFilePath, url.Values{"path": {path}}, from, copying(io.Discard))
}

// RemoveMachinePath removes a file, or a folder with its content.
func (c *Client) RemoveMachinePath(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, MachineFilePath, url.Values{"path": {path}}, nil, copying(io.Discard))
}

// RenameMachinePath moves a file, or a folder with its content, to a free path.
func (c *Client) RenameMachinePath(ctx context.Context, from, to string) error {
	return c.call(ctx, http.MethodPut, MachineRenamePath, url.Values{"path": {from}, "to": {to}}, nil, copying(io.Discard))
}

// MakeMachineFolder creates a folder and its missing parents.
func (c *Client) MakeMachineFolder(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodPut, MachineFolderPath, url.Values{"path": {path}}, nil, copying(io.Discard))
}

// ListMachine calls the function each with the entry of a path, and with the entries below it down
// to a depth. If depth is 0, it lists only the path itself, and does not follow a link.
func (c *Client) ListMachine(ctx context.Context, path string, depth int, each func(listing.Entry) error) error {
	return c.list(ctx, MachineListPath, url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}}, each)
}

// Unpacked counts the entries and bytes that PutMachineTree has written.
type Unpacked struct {
	Files    int64 `json:"files"`
	Folders  int64 `json:"folders"`  // new ones
	Links    int64 `json:"links"`    // symbolic and hard links.
	Replaced int64 `json:"replaced"` // files and links that replaced others.
	Bytes    int64 `json:"bytes"`    // of content
	Skipped  int64 `json:"skipped"`  // devices and pipes, which are never created
	Lost     int64 `json:"lost"`     // owners and extended attributes that the file system rejects
}

// WriteUnpacked writes the answer to a request that unpacks a tree.
func WriteUnpacked(w io.Writer, u Unpacked) error { return json.NewEncoder(w).Encode(u) }

// TreeOptions are options for unpacking a tree. By default, entries keep the owners and attributes
// of the archive. If SetOwner is true, all entries belong to UID and GID, and existing folders keep
// their attributes.
type TreeOptions struct {
	SetOwner bool
	UID, GID int
}

// PutMachineTree unpacks a tar archive below a folder of the machine. See client.PutTree.
func (c *Client) PutMachineTree(ctx context.Context, path string, o TreeOptions, archive io.Reader) (Unpacked, error) {
	q := url.Values{"path": {path}}
	if o.SetOwner {
		q.Set("uid", strconv.Itoa(o.UID))
		q.Set("gid", strconv.Itoa(o.GID))
	}
	var done Unpacked
	err := c.call(ctx, http.MethodPut, MachineTreePath, q, archive, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, content.MaxDrained)).Decode(&done)
	})
	return done, err
}

// GetMachineTree copies the entry at a path, and everything below it, as a tar archive. All names
// in the archive begin with the parameter as. If it is empty, they begin with the last element of
// the path. See client.GetTree.
func (c *Client) GetMachineTree(ctx context.Context, path, as string, to io.Writer) error {
	return c.call(ctx, http.MethodGet, MachineTreePath, url.Values{"path": {path}, "as": {as}}, nil, copying(to))
}

// Usage describes the resources that a machine uses.
type Usage struct {
	CPU       time.Duration `json:"cpu_ns"`     // processor time on the host, since the machine's start
	MemBytes  int64         `json:"mem_bytes"`  // used inside the machine
	DiskBytes int64         `json:"disk_bytes"` // used by the machine's folder on the host

	// SentBytes is how much the machine has sent to other computers since the time SentSince, which
	// is in nanoseconds since 1970. ReceivedBytes is how much it has received since then. Without a
	// network, all are 0.
	SentBytes     int64 `json:"sent_bytes"`
	SentSince     int64 `json:"sent_since"`
	ReceivedBytes int64 `json:"received_bytes,omitempty"`

	// Processes are the processes whose time CPU counts. Processes is nil if there are too many.
	// Supervisor is the PID of the supervisor. If the processor times of these processes have not
	// changed (ProcessorTime), the other fields have not changed either.
	Processes  []int `json:"processes,omitempty"`
	Supervisor int   `json:"supervisor,omitempty"`
}

// WriteUsage writes the answer to a usage request.
func WriteUsage(w io.Writer, u Usage) error { return json.NewEncoder(w).Encode(u) }

// Usage returns the resources that the machine uses. The call does not count as activity.
func (c *Client) Usage(ctx context.Context) (u Usage, err error) {
	err = c.call(ctx, http.MethodGet, UsagePath, nil, nil, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, content.MaxDrained)).Decode(&u)
	})
	return u, err
}
