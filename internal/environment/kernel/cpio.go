package kernel

import (
	"fmt"
	"io"
	"strings"
)

// File types of entries, as in stat(2).
const (
	dir  = 0o040000
	char = 0o020000
	file = 0o100000
)

// archive writes the initramfs format of Linux, which is the format "newc" of cpio. An entry
// consists of a header of 110 hexadecimal bytes, a name and content. Header and name together are
// padded to a multiple of 4 bytes, and so is the content. All entries belong to root and have no
// times. See https://docs.kernel.org/driver-api/early-userspace/buffer-format.html.
type archive struct {
	out   io.Writer
	inode int
	err   error
}

func (a *archive) entry(name string, mode, major, minor int, content []byte) {
	a.inode++
	links := 1
	if mode&dir != 0 {
		links = 2
	}
	fields := []int{a.inode, mode, 0, 0, links, 0, len(content), 0, 0, major, minor, len(name) + 1, 0}
	var header strings.Builder
	header.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&header, "%08x", f)
	}
	header.WriteString(name + "\x00")
	a.write([]byte(header.String()))
	a.write(content)
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.out.Write(b)
	}
	if fill := -len(b) & 3; fill > 0 && a.err == nil {
		_, a.err = a.out.Write(make([]byte, fill))
	}
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.err
}

// WriteInitramfs writes an initramfs that contains the agent as /init, and the modules in
// /lib/modules. The file /modules lists the paths of the modules in load order. The archive is not
// compressed, because loading it is fast. An emulated processor would need a second to decompress
// it.
func WriteInitramfs(out io.Writer, agent []byte, modules []Module) error {
	a := &archive{out: out}
	for _, name := range []string{"dev", "lib", "lib/modules", "proc", "sys"} {
		a.entry(name, dir|0o755, 0, 0, nil)
	}
	a.entry("dev/console", char|0o600, 5, 1, nil)
	a.entry("dev/null", char|0o666, 1, 3, nil)
	var list strings.Builder
	for _, m := range modules {
		path := "lib/modules/" + m.Name + ".ko"
		a.entry(path, file|0o644, 0, 0, m.Image)
		list.WriteString("/" + path + "\n")
	}
	a.entry("modules", file|0o644, 0, 0, []byte(list.String()))
	a.entry("init", file|0o755, 0, 0, agent)
	return a.close()
}
