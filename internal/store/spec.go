package store

import (
	"cmp"
	"time"
)

// Spec contains the settings of a workspace. Only Update changes them.
type Spec struct {
	Environment string   `json:"environment"`
	Digest      string   `json:"digest,omitempty"` // digest of the environment's image
	Env         []string `json:"env,omitempty"`    // variables for every command, as NAME=VALUE
	User        string   `json:"user,omitempty"`   // user for every command
	Isolation   string   `json:"isolation"`
	Reason      string   `json:"reason,omitempty"` // why no stronger isolation was used, if that is noteworthy
	VCPUCount   int      `json:"vcpu_count"`
	MemMiB      int      `json:"mem_mib"`
	DiskMiB     int      `json:"disk_mib,omitempty"`           // size of /workspace; 0: DefaultDiskMiB.
	TTLSeconds  int      `json:"ttl_seconds"`                  // 0: it never expires.
	AutoPause   int      `json:"auto_pause_seconds,omitempty"` // idle time before it is paused; 0: never.
	Network     string   `json:"network"`                      // one of the Network constants
	Egress      Egress   `json:"egress,omitzero"`
	Seed        Seed     `json:"seed"`

	Secrets []SecretName `json:"secrets,omitempty"` // sorted by name

	HostNetwork *HostNetwork `json:"host_network,omitempty"` // nil: the machine gets no network settings of the host

	// Machine is the shape of the running or saved machine, if it differs from the other fields.
	// Those describe the next machine that boots.
	Machine *Shape `json:"machine,omitempty"`
}

// Shape is the part of the settings that a machine keeps from its boot to its end, even through
// pauses.
type Shape struct {
	VCPUCount int  `json:"vcpu_count"`
	MemMiB    int  `json:"mem_mib"`
	Networked bool `json:"networked"`
}

// Shape returns the shape of the next machine that boots.
func (s Spec) Shape() Shape { return Shape{s.VCPUCount, s.MemMiB, s.Networked()} }

// CurrentShape returns the shape of the running or saved machine.
func (s Spec) CurrentShape() Shape {
	if s.Machine != nil {
		return *s.Machine
	}
	return s.Shape()
}

// The default size of /workspace in MiB, and its limits.
const (
	DefaultDiskMiB = 16 << 10
	MinDiskMiB     = 64
	MaxDiskMiB     = 16 << 10 // the size of the virtual disk
)

// Disk returns the size of /workspace, in MiB.
func (s Spec) Disk() int { return cmp.Or(s.DiskMiB, DefaultDiskMiB) }

// Network policies.
const (
	NetworkOff       = "off"
	NetworkEgress    = "egress"
	NetworkPublished = "egress+published-ports"
)

// Networked reports whether the machine has a network.
func (s Spec) Networked() bool { return s.Network == NetworkEgress || s.Network == NetworkPublished }

// Egress contains the egress rules, in the format of internal/network/egress.
type Egress struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Open  []string `json:"open,omitempty"` // allowed in addition, even if Allow is empty and nothing else is refused
}

// HostNetwork contains the network settings of the host that a machine gets (see package hostnet).
// It contains no credentials.
type HostNetwork struct {
	Env          []string          `json:"env,omitempty"`          // NAME=VALUE, for every program
	Rules        []string          `json:"egress,omitempty"`       // egress rules
	Certificates string            `json:"certificates,omitempty"` // PEM
	Mirrors      map[string]string `json:"mirrors,omitempty"`      // URIs of apt archives, by name: debian, debian-security, ubuntu
	NPM          string            `json:"npm,omitempty"`          // content of npm's global configuration
	APT          string            `json:"apt,omitempty"`          // content of a file of apt's configuration
}

// Variables returns Env. It returns nil if there are no settings.
func (h *HostNetwork) Variables() []string {
	if h == nil {
		return nil
	}
	return h.Env
}

// Expiry returns the time when a workspace expires. The parameter is the time of its last activity.
// The result is zero if the workspace never expires.
func (s Spec) Expiry(active time.Time) time.Time {
	if s.TTLSeconds <= 0 {
		return time.Time{}
	}
	return active.Add(time.Duration(s.TTLSeconds) * time.Second)
}

// Seed describes the initial contents of a workspace.
type Seed struct {
	Mode        string `json:"mode"` // empty, directory or archive
	Path        string `json:"path,omitempty"`
	OriginKind  string `json:"origin_kind,omitempty"` // project, path or empty
	OriginRef   string `json:"origin_ref,omitempty"`  // revision of a git checkout: BRANCH@COMMIT or COMMIT
	Files       int    `json:"files,omitempty"`
	Directories int    `json:"directories,omitempty"`
	Symlinks    int    `json:"symlinks,omitempty"`
	Skipped     int    `json:"skipped,omitempty"`
	Ignored     int    `json:"ignored,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	GitMissing  string `json:"git_missing,omitempty"` // why git can't work in copied checkouts
	Fork        string `json:"fork,omitempty"`        // the workspace that this one was forked from
}

// Disks names the disks of a machine or a snapshot. Each name is a file or a folder of the
// workspace.
type Disks struct {
	Volume   []string `json:"volume"`             // layers of /workspace, lowest first; the machine writes to the last layer.
	Root     []string `json:"root,omitempty"`     // layers of the root disk above the environment's image, in the same order.
	Baseline []string `json:"baseline,omitempty"` // layers of the initial volume, which are never written; not set for snapshots

	// Checkpoint is the saved state of a machine that used these disks (machine.Saver). If it is
	// set, the workspace is paused. If it is empty, the next machine boots.
	Checkpoint string `json:"memory,omitempty"`

	// FreshUntil is a time in Unix nanoseconds. It is set if the volume is a tree that was copied
	// from the baseline. Files that last changed before this time are the same as in the baseline.
	FreshUntil int64 `json:"fresh_until,omitempty"`
}
