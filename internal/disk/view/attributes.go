package view

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// kept tells whether an extended attribute is one of the file's, and not one of the host's or of how it is stored.
func kept(name string) bool {
	return name == "security.capability" || isList(name) || strings.HasPrefix(name, "user.") ||
		strings.HasPrefix(name, "trusted.") && !strings.HasPrefix(name, "trusted.overlay.")
}

// isList tells whether an extended attribute is an access control list.
func isList(name string) bool {
	return name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

// note enters an extended attribute that getxattr(2) told as ext4 stores it.
func note(attributes map[string]string, name, value string) error {
	if !isList(name) {
		attributes[name] = value
		return nil
	}
	stored, err := storedList(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if stored != "" {
		attributes[name] = stored
	}
	return nil
}

// An access control list is a version and entries: what each is for, what that may do, and whom it is for. ext4 leaves the last out where the first says it.
const (
	listHead      = 4
	listEntry     = 8
	shortEntry    = 4
	toldVersion   = 2
	storedVersion = 1
)

// What an entry of a list is for.
const (
	forOwner = 1 << iota
	forUser
	forOwningGroup
	forGroup
	forMask
	forOthers
)

// storedList gives an access control list that getxattr(2) told as ext4 stores it. One that says nothing is none, and empty.
func storedList(told string) (string, error) {
	b := []byte(told)
	if len(b) == 0 {
		return "", nil
	}
	le := binary.LittleEndian
	if len(b) < listHead || (len(b)-listHead)%listEntry != 0 || le.Uint32(b) != toldVersion {
		return "", errors.New("it is no access control list")
	}
	if b = b[listHead:]; len(b) == 0 {
		return "", nil
	}
	var seen uint16
	stored := le.AppendUint32(nil, storedVersion)
	for ; len(b) > 0; b = b[listEntry:] {
		use, may := le.Uint16(b), le.Uint16(b[2:])
		length := shortEntry
		switch use {
		case forUser, forGroup:
			length = listEntry
		case forOwner, forOwningGroup, forMask, forOthers:
			if seen&use != 0 {
				return "", fmt.Errorf("it has an entry %#x twice", use)
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
	// Linux reads no others.
	const always = forOwner | forOwningGroup | forOthers
	if seen&always != always || seen&(forUser|forGroup) != 0 && seen&forMask == 0 {
		return "", errors.New("the access control list is not complete")
	}
	return string(stored), nil
}
