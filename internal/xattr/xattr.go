// Package xattr says which extended attributes of files pyro keeps, and which ones it sets itself.
package xattr

import (
	"encoding/binary"
	"strings"
)

// own begins the names of attributes that pyro sets on the host. No machine, seed or archive can
// set or read them.
const own = "user.pyro."

// Shared is the attribute of files that several trees can share. A file with this attribute never
// changes, and has exactly one name in each tree. A machine must replace it by a copy without the
// attribute before it changes the file. A folder with this attribute belongs to a tree that never
// changes, and all files directly in it have the attribute.
//
// The value is empty, or it is the result of SharedSince.
const Shared = own + "shared"

// SeveralNames is the attribute of files that a machine has seen with several names. While this
// machine runs, such a file must not get the attribute Shared, even if it has one name again.
const SeveralNames = own + "several-names"

// SharedSince returns the value of Shared for a file that a machine has used before. Making links
// changes the change time of a file, so the machine shows its programs this change time instead. It
// is 12 bytes, big-endian: 8 for the seconds since 1970, and 4 for the nanoseconds.
func SharedSince(seconds, nanoseconds int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(seconds))
	return binary.BigEndian.AppendUint32(b, uint32(nanoseconds))
}

// Portable reports whether an attribute belongs to the file itself, so that copies, archives and
// disks contain it. Other attributes belong to the host, or describe how the file is stored.
func Portable(name string) bool {
	return name == "security.capability" || ACL(name) ||
		strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, own) ||
		strings.HasPrefix(name, "trusted.") && !strings.HasPrefix(name, "trusted.overlay.")
}

// ACL reports whether an attribute is an access control list.
func ACL(name string) bool {
	return name == "system.posix_acl_access" || name == "system.posix_acl_default"
}
