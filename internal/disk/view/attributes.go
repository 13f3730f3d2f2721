package view

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// addXattr adds an extended attribute to the map attributes. The argument value comes from
// getxattr(2). The map contains values in the format that ext4 stores.
func addXattr(attributes map[string]string, name, value string) error {
	if !xattr.ACL(name) {
		attributes[name] = value
		return nil
	}
	stored, err := storedACL(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if stored != "" {
		attributes[name] = stored
	}
	return nil
}

// An access control list consists of a version and entries. Each entry contains a tag, the
// permissions and the ID of a user or group. ext4 omits the ID for tags that do not need an ID.
const (
	aclHeader        = 4
	aclEntry         = 8
	aclShortEntry    = 4
	aclXattrVersion  = 2
	aclStoredVersion = 1
)

// Tags of the entries of an access control list.
const (
	aclUserObj = 1 << iota
	aclUser
	aclGroupObj
	aclGroup
	aclMask
	aclOther
)

// storedACL converts an access control list from the format of getxattr(2) to the format of ext4.
// It returns "" for an empty list.
func storedACL(acl string) (string, error) {
	b := []byte(acl)
	if len(b) == 0 {
		return "", nil
	}
	le := binary.LittleEndian
	if len(b) < aclHeader || (len(b)-aclHeader)%aclEntry != 0 || le.Uint32(b) != aclXattrVersion {
		return "", errors.New("it is not an access control list")
	}
	if b = b[aclHeader:]; len(b) == 0 {
		return "", nil
	}
	var seen uint16
	stored := le.AppendUint32(nil, aclStoredVersion)
	for ; len(b) > 0; b = b[aclEntry:] {
		use, may := le.Uint16(b), le.Uint16(b[2:])
		length := aclShortEntry
		switch use {
		case aclUser, aclGroup:
			length = aclEntry
		case aclUserObj, aclGroupObj, aclMask, aclOther:
			if seen&use != 0 {
				return "", fmt.Errorf("it has two entries %#x", use)
			}
		default:
			return "", fmt.Errorf("it has an entry %#x", use)
		}
		if may > 7 {
			return "", fmt.Errorf("its entry %#x allows %#x", use, may)
		}
		seen |= use
		stored = append(stored, b[:length]...)
	}
	// Linux rejects incomplete lists.
	const always = aclUserObj | aclGroupObj | aclOther
	if seen&always != always || seen&(aclUser|aclGroup) != 0 && seen&aclMask == 0 {
		return "", errors.New("the access control list is not complete")
	}
	return string(stored), nil
}
