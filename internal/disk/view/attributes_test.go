package view

import (
	"encoding/base64"
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// allowed is an entry of an access control list.
type allowed struct {
	use, may uint16
	id       uint32
}

const nobody = 1<<32 - 1

func owner(may uint16) allowed           { return allowed{1, may, nobody} }
func user(may uint16, id uint32) allowed { return allowed{2, may, id} }
func group(may uint16) allowed           { return allowed{4, may, nobody} }
func mask(may uint16) allowed            { return allowed{0x10, may, nobody} }
func others(may uint16) allowed          { return allowed{0x20, may, nobody} }

// list returns an access control list in the format of getxattr(2).
func list(entries ...allowed) string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b, _ = binary.Append(b, binary.LittleEndian, e)
	}
	return string(b)
}

// aclText returns an access control list in the format that archives contain.
func aclText(entries ...allowed) string {
	return base64.RawStdEncoding.EncodeToString([]byte(list(entries...)))
}

// stored returns an access control list in the format that an image contains.
func stored(entries ...allowed) string {
	b := binary.LittleEndian.AppendUint32(nil, 1)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.use), e.may)
		if e.id != nobody {
			b = binary.LittleEndian.AppendUint32(b, e.id)
		}
	}
	return string(b)
}

func TestAccessControlLists(t *testing.T) {
	namedGroup := allowed{8, 1, 1<<32 - 2}
	for name, c := range map[string]struct{ acl, want string }{
		"nothing": {"", ""}, "no entries": {list(), ""}, "owners": {list(owner(6), group(5), others(0)), stored(owner(6), group(5), others(0))},
		"names": {list(owner(7), user(4, 1000), user(0, 1<<31), group(5), namedGroup, mask(7), others(1)), stored(owner(7), user(4, 1000), user(0, 1<<31), group(5), namedGroup, mask(7), others(1))},
	} {
		if got, err := storedACL(c.acl); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, not %q", name, got, err, c.want)
		}
	}
	for name, acl := range map[string]string{
		"short": "\x02\x00", "version": "\x01" + list(owner(6))[1:], "cut": list(owner(6))[:10], "more than allowed": list(owner(8), group(0), others(0)),
		"for nobody": list(owner(7), allowed{0, 7, 0}, group(0), others(0)), "for two": list(owner(7), allowed{3, 7, 0}, group(0), others(0)), "no owner": list(group(0), others(0)),
		"two owners": list(owner(7), owner(7), group(0), others(0)), "no mask": list(owner(7), user(7, 1), group(0), others(0)), "the mask twice": list(owner(7), group(0), mask(1), mask(2), others(0)),
	} {
		if got, err := storedACL(acl); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestAccessControlListsOfHost sets access control lists on the host and reads them back.
func TestAccessControlListsOfHost(t *testing.T) {
	path, tree := hostFolder(t)
	entries := []allowed{owner(6), user(4, 1234), group(4), {8, 7, 55}, mask(7), others(0)}
	for _, key := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if err := unix.Setxattr(path+"/sub", key, []byte(list(entries...)), 0); err != nil {
			testenv.Lacks(t, os.NewSyscallError("setxattr", err))
		}
	}
	got, err := tree.Xattrs("sub")
	if want := stored(entries...); err != nil || len(got) != 2 || got["system.posix_acl_access"] != want || got["system.posix_acl_default"] != want {
		t.Errorf("%q, %v, not %q", got, err, want)
	}
}

// FuzzStoredList checks that every accepted list is valid in ext4. ext4 derives the number of
// entries from the length alone. This is possible because there are at most four short entries.
func FuzzStoredList(f *testing.F) {
	f.Add(list(owner(6), group(4), others(0)))
	f.Add(list(owner(6), user(4, 1234), group(4), allowed{8, 7, 55}, mask(7), others(0)))
	f.Add("\x02\x00\x00\x00")
	f.Fuzz(func(t *testing.T, acl string) {
		stored, err := storedACL(acl)
		if err != nil || stored == "" {
			return
		}
		entries := (len(acl) - aclHeader) / aclEntry
		if n := len(stored) - aclHeader; n != 3*aclShortEntry && n != 4*aclShortEntry+(entries-4)*aclEntry {
			t.Errorf("%q is %q", acl, stored)
		}
	})
}
