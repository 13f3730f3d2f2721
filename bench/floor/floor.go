// Package floor starts bare QEMU from pyro's templates and images, without confinement, supervision
// and checks. Pyro's figures are compared with the figures of these machines.
package floor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Machine is a bare QEMU process.
type Machine struct {
	Link net.Conn
	qmp  net.Conn
	cmd  *exec.Cmd
}

// Template describes a template and the folder that contains it.
type Template struct {
	Dir     string
	Shape   []string // arguments of QEMU
	Line    string   // kernel command line
	MemMB   string
	Network bool // the machine has a network interface, which needs -netdev id=net
}

// Read reads the description of a template from its folder.
func Read(dir string) (Template, error) {
	b, err := os.ReadFile(filepath.Join(dir, "template.json"))
	if err != nil {
		return Template{}, err
	}
	var record struct {
		Key struct{ Arguments string }
	}
	if err := json.Unmarshal(b, &record); err != nil {
		return Template{}, err
	}
	shape, line, _ := strings.Cut(record.Key.Arguments, "\n")
	t := Template{Dir: dir, Shape: strings.Fields(shape), Line: line}
	for i, arg := range t.Shape {
		if arg == "-m" {
			t.MemMB = t.Shape[i+1]
		}
		t.Network = t.Network || strings.Contains(arg, "netdev=net")
	}
	return t, nil
}

// start starts QEMU with sockets for its monitor, link and console. QEMU inherits the files as
// descriptors 6 and higher.
func start(args []string, files ...*os.File) (*Machine, error) {
	var conns []net.Conn
	var far []*os.File
	for range 3 {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		near := os.NewFile(uintptr(fds[0]), "near")
		conn, err := net.FileConn(near)
		near.Close()
		if err != nil {
			return nil, err
		}
		conns, far = append(conns, conn), append(far, os.NewFile(uintptr(fds[1]), "far"))
	}
	all := append([]string{
		"-blockdev", "driver=null-co,node-name=window,read-zeroes=on,size=" + strconv.Itoa(sharedbuffer.Size),
		"-blockdev", "driver=null-co,node-name=volume,read-zeroes=on,size=" + strconv.Itoa(diskSize),
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control", "-chardev", "socket,id=agent,fd=4", "-chardev", "socket,id=console,fd=5",
	}, args...)
	cmd := exec.Command("qemu-system-x86_64", all...)
	cmd.ExtraFiles = append(far, files...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range far {
		f.Close()
	}
	go io.Copy(io.Discard, conns[2])
	return &Machine{Link: conns[1], qmp: conns[0], cmd: cmd}, nil
}

// diskSize is the size of the disk of each pyro machine, in bytes.
const diskSize = 16 << 30

// Restore restores a machine from the template, with an image as its disk. more contains further
// arguments of QEMU.
func Restore(t Template, image string, more ...string) (*Machine, error) {
	var files []*os.File
	for _, path := range []string{filepath.Join(t.Dir, "ram"), filepath.Join(t.Dir, "state"), image} {
		flags := os.O_RDONLY
		if strings.HasSuffix(path, "ram") {
			flags = os.O_RDWR
		}
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files = append(files, f)
	}
	saved, err := os.Open(filepath.Join(t.Dir, "overlay.qcow2"))
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	overlay, err := disk.Unnamed(t.Dir)
	if err != nil {
		return nil, err
	}
	defer overlay.Close()
	if err := disk.Copy(overlay, saved); err != nil {
		return nil, err
	}
	m, err := start(append(append(append([]string{}, t.Shape...), more...),
		"-object", "memory-backend-file,id=mem,size="+t.MemMB+",mem-path=/proc/self/fd/6,share=off",
		"-add-fd", "fd=8,set=1", "-add-fd", "fd=9,set=2",
		"-blockdev", "driver=file,node-name=if,filename=/dev/fdset/1,read-only=on", "-blockdev", "driver=raw,node-name=image,file=if,read-only=on",
		"-blockdev", "driver=file,node-name=of,filename=/dev/fdset/2,cache.no-flush=on,locking=off",
		"-blockdev", "driver=qcow2,node-name=root,file=of,backing=image,cache.no-flush=on", "-incoming", "defer",
	), append(files, overlay)...)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(m.qmp, `{"execute":"qmp_capabilities"}
{"execute":"migrate-set-capabilities","arguments":{"capabilities":[{"capability":"x-ignore-shared","state":true}]}}
{"execute":"migrate-incoming","arguments":{"uri":"fd:7"}}
`)
	go io.Copy(io.Discard, m.qmp)
	return m, err
}

// Boot boots a kernel with an initramfs. The machine has an empty disk.
func Boot(t Template, kernel, initramfs string) (*Machine, error) {
	m, err := start(append(append([]string{}, t.Shape...),
		"-object", "memory-backend-ram,id=mem,size="+t.MemMB, "-blockdev", "driver=null-co,node-name=root,read-zeroes=on",
		"-kernel", kernel, "-initrd", initramfs, "-append", t.Line))
	if err == nil {
		_, err = io.WriteString(m.qmp, `{"execute":"qmp_capabilities"}`+"\n")
		go io.Copy(io.Discard, m.qmp)
	}
	return m, err
}

// Close kills QEMU.
func (m *Machine) Close() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
	m.Link.Close()
	m.qmp.Close()
}

// Run restores a machine from the template, runs a command through the agent, and kills QEMU.
func Run(ctx context.Context, t Template, image string, argv []string) error {
	m, err := Restore(t, image)
	if err != nil {
		return err
	}
	defer m.Close()
	c, err := client.Dial(ctx, m.Link)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Renew(ctx, client.NewIdentity("floor")); err != nil {
		return err
	}
	exit, err := c.Exec(ctx, program.Command{Argv: argv}, program.Attach{Stdout: os.Stdout, Stderr: os.Stderr})
	if err == nil && exit.Code != 0 {
		err = errors.New(fmt.Sprint("exit code ", exit.Code))
	}
	return err
}

// Cold boots a kernel and the agent's initramfs, with an image as the disk.
func Cold(t Template, image, kernel, initramfs string) (*Machine, error) {
	base, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	m, err := start(append(append([]string{}, t.Shape...),
		"-object", "memory-backend-ram,id=mem,size="+t.MemMB,
		"-add-fd", "fd=6,set=1", "-drive", "if=none,id=root,snapshot=on,format=raw,file=/dev/fdset/1",
		"-kernel", kernel, "-initrd", initramfs, "-append", t.Line), base)
	if err == nil {
		_, err = io.WriteString(m.qmp, `{"execute":"qmp_capabilities"}`+"\n")
		go io.Copy(io.Discard, m.qmp)
	}
	return m, err
}
