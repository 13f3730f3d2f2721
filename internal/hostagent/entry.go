package hostagent

import (
	"bufio"
	"bytes"
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// owners contains the names of a sandbox's users and groups, by decimal ID.
type owners struct{ users, groups map[string]string }

// maxUserFile is the maximum number of bytes that are read from each of /etc/passwd and /etc/group.
const maxUserFile = 1 << 20

// readOwners reads /etc/passwd and /etc/group of a sandbox. If a file can't be read, its users or
// groups are shown by ID.
func readOwners(ctx context.Context, m Machine) owners {
	read := func(file string) map[string]string {
		text := program.Bounded{Budget: program.NewBudget(maxUserFile)}
		if m.ReadMachineFile(ctx, file, &text) != nil {
			return nil
		}
		names := map[string]string{}
		for lines := bufio.NewScanner(bytes.NewReader(text.Bytes())); lines.Scan(); {
			if f := strings.Split(lines.Text(), ":"); len(f) > 2 && f[0] != "" {
				if _, known := names[f[2]]; !known {
					names[f[2]] = f[0]
				}
			}
		}
		return names
	}
	return owners{read("/etc/passwd"), read("/etc/group")}
}

// entry returns a description of the file at a path. It escapes names that are not UTF-8, because
// protobuf strings must be UTF-8.
func (o owners) entry(at string, e listing.Entry) *pb.FileEntry {
	f := &pb.FileEntry{
		Name: listing.Escape(path.Base(at)), Path: listing.Escape(at), Size: e.Size, Mode: e.Mode, Permissions: permissions(e.Kind, e.Mode), Owner: nameOf(o.users, e.UID), Group: nameOf(o.groups, e.GID),
		ModifiedAt: time.Unix(0, e.ModTime).Unix(), Type: e.Kind.String(),
	}
	if e.Kind == listing.Link {
		target := listing.Escape(e.Target)
		f.SymlinkTarget = &target
	}
	return f
}

func nameOf(names map[string]string, id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	if name := names[number]; name != "" {
		return strings.ToValidUTF8(name, "\uFFFD")
	}
	return number
}

// permissions formats a mode like ls -l.
func permissions(kind listing.Kind, mode uint32) string {
	b := []byte("?rwxrwxrwx")
	switch kind {
	case listing.File:
		b[0] = '-'
	case listing.Folder:
		b[0] = 'd'
	case listing.Link:
		b[0] = 'l'
	case listing.Pipe:
		b[0] = 'p'
	case listing.Socket:
		b[0] = 's'
	case listing.CharDevice:
		b[0] = 'c'
	case listing.BlockDevice:
		b[0] = 'b'
	}
	for i := range 9 {
		if mode&(1<<(8-i)) == 0 {
			b[1+i] = '-'
		}
	}
	for _, special := range []struct {
		bit      uint32
		at       int
		with, no byte
	}{{0o4000, 3, 's', 'S'}, {0o2000, 6, 's', 'S'}, {0o1000, 9, 't', 'T'}} {
		if mode&special.bit == 0 {
			continue
		}
		if b[special.at] == 'x' {
			b[special.at] = special.with
		} else {
			b[special.at] = special.no
		}
	}
	return string(b)
}
