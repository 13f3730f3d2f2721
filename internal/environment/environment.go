// Package environment stores environments: named, immutable images that machines start from. It
// also stores the kernel and initramfs.
//
// An environment is built from Debian packages or pulled from an OCI registry. The result is a raw
// ext4 image with a fixed virtual size, see package ext4image. The store contains these files:
//
//	content/<sha256>/rootfs.ext4   an immutable image, named by its hash.
//	content/<sha256>/image.json    size and times of the image at the last check.
//	content/<sha256>/lock          shared while in use, exclusive for removal.
//	content/<sha256>/used          empty; its modification time is the last use.
//	names/<name>.json              the environment with a name.
//	locks/                         a lock for each name during a pull, and one for content.
//	staging-<random>/              unfinished work; locked while its process lives
//
// Images that were created from changed machines are in a separate directory with pyro's state.
// Other users of the cache do not see them.
//
// Every change renames complete files that are flushed to disk. An interrupted pull leaves only a
// staging directory, which the next pull or prune removes. Any number of processes can use a store
// concurrently.
package environment

import "time"

// Environment describes an environment. It is part of the JSON contract.
type Environment struct {
	Name           string    `json:"name"` // "debian:12", or a full OCI reference
	Description    string    `json:"description,omitempty"`
	Source         string    `json:"source"`           // one of the sources below
	Digest         string    `json:"digest,omitempty"` // Of the image's content, "sha256:…". Empty if the environment is not installed.
	Installed      bool      `json:"installed"`
	InstalledAt    time.Time `json:"installed_at,omitzero"`
	LastUsedAt     time.Time `json:"last_used_at,omitzero"`        // when it was last opened for a machine. Zero: never, or the cache is read-only.
	SizeBytes      int64     `json:"size_bytes,omitempty"`         // Size on the host's disk.
	VirtualSize    int64     `json:"virtual_size_bytes,omitempty"` // Size that a machine sees.
	Packages       []string  `json:"packages,omitempty"`           // Only for entries of the catalogue.
	Env            []string  `json:"env,omitempty"`                // NAME=VALUE, for every command.
	User           string    `json:"user,omitempty"`               // Name or number, optionally followed by :group. Empty means root.
	WorkDir        string    `json:"work_dir,omitempty"`           // Empty means the user's home.
	Entrypoint     []string  `json:"entrypoint,omitempty"`         // First words of the image's own command.
	Cmd            []string  `json:"cmd,omitempty"`                // Further words of the image's own command.
	Reference      string    `json:"reference,omitempty"`          // Reference of an OCI image, as requested.
	ManifestDigest string    `json:"manifest_digest,omitempty"`    // Digest of an OCI image for this architecture.
}

// Sources of environments.
const (
	SourceDebian = "debian" // built from Debian packages
	SourceOCI    = "oci"    // pulled from a registry, or loaded from an OCI layout
	SourceBuild  = "build"  // built from a Dockerfile
	SourceCommit = "commit" // made from a workspace
)

// installed fills in the fields that describe an image that was just installed.
func (e *Environment) installed(digest string, bytes int64) {
	e.Digest, e.Installed, e.InstalledAt, e.SizeBytes, e.VirtualSize = digest, true, time.Now().UTC(), bytes, virtualSize
}
