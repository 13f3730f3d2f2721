package hostagent

import (
	"bufio"
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// owners knows what a sandbox calls its users and groups.
type owners struct{ users, groups map[string]string }

// maxUserFile bounds what is read of a sandbox's list of users, or of groups.
const maxUserFile = 1 << 20

// namesIn reads what a sandbox calls its users and groups. Where that can't be read they have numbers.
func namesIn(ctx context.Context, m Machine) owners {
	read := func(file string) map[string]string {
		left := maxUserFile
		text := collected{left: &left}
		if m.ReadMachineFile(ctx, file, &text) != nil {
			return nil
		}
		names := map[string]string{}
		for lines := bufio.NewScanner(&text.buffer); lines.Scan(); {
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

// entry tells of what is at a path. A name may hold any byte, and an answer only UTF-8: what is none is replaced.
func (o owners) entry(at string, e listing.Entry) *pb.FileEntry {
	at = strings.ToValidUTF8(at, "\uFFFD")
	f := &pb.FileEntry{
		Name: path.Base(at), Path: at, Size: e.Size, Mode: e.Mode, Permissions: permissions(e.Kind, e.Mode), Owner: nameOf(o.users, e.UID), Group: nameOf(o.groups, e.GID),
		ModifiedAt: time.Unix(0, e.ModTime).Unix(),
	}
	switch e.Kind {
	case listing.File:
		f.Type = "file"
	case listing.Folder:
		f.Type = "directory"
	case listing.Link:
		f.Type = "symlink"
		target := strings.ToValidUTF8(e.Target, "\uFFFD")
		f.SymlinkTarget = &target
	default:
		f.Type = "other"
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

// permissions gives a mode as ls -l does. What is neither file, folder nor link begins with a question mark.
func permissions(kind listing.Kind, mode uint32) string {
	b := []byte("?rwxrwxrwx")
	switch kind {
	case listing.File:
		b[0] = '-'
	case listing.Folder:
		b[0] = 'd'
	case listing.Link:
		b[0] = 'l'
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
