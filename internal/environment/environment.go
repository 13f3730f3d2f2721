// Package environment keeps environments: named immutable images that machines start from, and the kernel and initramfs that they boot with.
//
// An environment comes from the catalogue, built from Debian's packages, or from an OCI registry. Both become a raw ext4 image of one virtual size
// (internal/environment/ext4image). On disk:
//
//	content/<sha256>/rootfs.ext4   an image, named by its content, never changed
//	content/<sha256>/image.json    what it was like when it was last known to be whole
//	content/<sha256>/lock          held shared by whoever uses it, exclusively by whoever removes it
//	names/<name>.json              what a name stands for
//	locks/                         one lock for each name that is being pulled, and one for changes of content
//	staging-<random>/              work that is not done; its lock is held while its maker lives
//
// Images that were made of what was changed in machines are likewise in a folder of their own, with the state: others that use this cache know nothing of them.
//
// All changes are renames of what is whole and flushed, so a pull that is interrupted, however, leaves nothing but a staging folder, which the next pull or
// prune removes. Any number of processes may use one store at once.
package environment

import "time"

// Environment describes one environment. It is part of the JSON contract.
type Environment struct {
	Name           string    `json:"name"` // "debian:12", or an OCI reference in full
	Description    string    `json:"description,omitempty"`
	Source         string    `json:"source"`           // "debian" or "oci"
	Digest         string    `json:"digest,omitempty"` // of the image's content, "sha256:…"; empty where it is not installed
	Installed      bool      `json:"installed"`
	InstalledAt    time.Time `json:"installed_at,omitzero"`
	SizeBytes      int64     `json:"size_bytes,omitempty"`         // that it takes on the host's disk
	VirtualSize    int64     `json:"virtual_size_bytes,omitempty"` // that a machine sees
	Packages       []string  `json:"packages,omitempty"`           // of an entry of the catalogue
	Env            []string  `json:"env,omitempty"`                // NAME=VALUE, for every command
	User           string    `json:"user,omitempty"`               // name or number, optionally :group; empty is root
	WorkDir        string    `json:"work_dir,omitempty"`           // empty is the user's home
	Reference      string    `json:"reference,omitempty"`          // of an OCI image, as it was asked for
	ManifestDigest string    `json:"manifest_digest,omitempty"`    // of an OCI image for this architecture
}

// Sources of environments.
const (
	SourceDebian = "debian"
	SourceOCI    = "oci"
)
