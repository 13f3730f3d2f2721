package ext4

import (
	"encoding/binary"
	"strings"
)

// Extended attributes, after https://docs.kernel.org/filesystems/ext4/attributes.html, are behind the inode and in a block of their own: entries from the
// front, values from the back.
const (
	xattrMagic     = 0xea020000
	xattrEntrySize = 16 // bytes before the name
	xattrBlockHead = 32
)

// xattrPrefixes are what names begin with, by a number that stands for it. Some are whole names.
var xattrPrefixes = map[byte]string{
	1: "user.", 2: "system.posix_acl_access", 3: "system.posix_acl_default", 4: "trusted.", 6: "security.", 7: "system.", 8: "system.richacl",
}

// Xattrs gives the extended attributes of a file by their names, with the values that they have on the disk: those of access control lists are not what
// getxattr(2) tells. Those whose names Linux does not show are left out.
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
	if err := fsys.readNear(raw, block*fsys.blockSize); err != nil {
		return nil, err
	}
	if le.Uint32(raw) != xattrMagic {
		return nil, corrupt("a block of extended attributes has mark %#x", le.Uint32(raw))
	}
	return attributes, addXattrs(attributes, raw[xattrBlockHead:], raw)
}

// addXattrs reads entries, whose values are in a part of the image that begins where their places count from. Of several of one name the first counts.
func addXattrs(to map[string]string, entries, values []byte) error {
	le := binary.LittleEndian
	for len(entries) >= 4 && le.Uint32(entries) != 0 {
		if len(entries) < xattrEntrySize+int(entries[0]) {
			return corrupt("an extended attribute's entry is cut")
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
