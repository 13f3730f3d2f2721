package ext4

import (
	"encoding/binary"
	"strings"
)

// Extended attributes are stored after the inode and in a separate block. Entries grow from the
// front and values from the back. See https://docs.kernel.org/filesystems/ext4/attributes.html.
const (
	xattrMagic     = 0xea020000
	xattrEntrySize = 16 // bytes before the name
	xattrBlockHead = 32
)

// xattrPrefixes maps the name index of an entry to the prefix of its name. Some prefixes are
// complete names.
var xattrPrefixes = map[byte]string{
	1: "user.", 2: "system.posix_acl_access", 3: "system.posix_acl_default", 4: "trusted.", 6: "security.", 7: "system.", 8: "system.richacl",
}

// Xattrs returns the extended attributes of a file by name. It returns values in their encoding on
// disk. For access control lists, getxattr(2) returns a different encoding. Attributes that Linux
// does not show are omitted.
func (fsys *FS) Xattrs(name string) (map[string]string, error) {
	found, err := fsys.lookup(name)
	if err != nil {
		return nil, pathError("getxattr", name, err)
	}
	attributes, err := fsys.xattrs(found.number)
	return attributes, pathError("getxattr", name, err)
}

func (fsys *FS) xattrs(number uint32) (map[string]string, error) {
	le := binary.LittleEndian
	raw, attributes := make([]byte, fsys.inodeSize), map[string]string{}
	if err := fsys.rawInode(raw, number); err != nil {
		return nil, err
	}
	if len(raw) > oldInodeSize {
		if at := oldInodeSize + int(le.Uint16(raw[0x80:])); at+4 <= len(raw) && le.Uint32(raw[at:]) == xattrMagic {
			if err := addXattrs(attributes, raw[at+4:], raw[at+4:]); err != nil {
				return nil, err
			}
		}
	}
	block := int64(le.Uint32(raw[0x68:])) | int64(le.Uint16(raw[0x76:]))<<32
	if block == 0 {
		return attributes, nil
	}
	raw = make([]byte, fsys.blockSize)
	if block >= fsys.blocks {
		return nil, corrupt("extended attributes at block %d", block)
	}
	if err := fsys.readMetadata(raw, block*fsys.blockSize); err != nil {
		return nil, err
	}
	if le.Uint32(raw) != xattrMagic {
		return nil, corrupt("a block of extended attributes has magic %#x", le.Uint32(raw))
	}
	return attributes, addXattrs(attributes, raw[xattrBlockHead:], raw)
}

// addXattrs parses entries and adds the attributes to a map. The offsets in the entries are
// relative to the start of values. If several entries have the same name, the first one counts.
func addXattrs(to map[string]string, entries, values []byte) error {
	le := binary.LittleEndian
	for len(entries) >= 4 && le.Uint32(entries) != 0 {
		if len(entries) < xattrEntrySize+int(entries[0]) {
			return corrupt("the entry of an extended attribute is truncated")
		}
		length, index := int(entries[0]), entries[1]
		at, inode, size := int(le.Uint16(entries[2:])), le.Uint32(entries[4:]), int64(le.Uint32(entries[8:]))
		name := string(entries[xattrEntrySize:][:length])
		switch {
		case inode != 0:
			return unsupported("ea_inode")
		case size > 0 && (at > len(values) || size > int64(len(values)-at)):
			return corrupt("an extended attribute of %d bytes at %d", size, at)
		case size == 0:
			at = 0
		}
		prefix, known := xattrPrefixes[index]
		if whole := !strings.HasSuffix(prefix, "."); known && whole == (name == "") && strings.IndexByte(name, 0) < 0 {
			if _, again := to[prefix+name]; !again {
				to[prefix+name] = string(values[at:][:size])
			}
		}
		entries = entries[min(len(entries), (xattrEntrySize+length+3)&^3):]
	}
	return nil
}
