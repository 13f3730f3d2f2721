package guest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/spawn"
)

// pyro-init is PID 1 of the namespace of the user's processes. It mounts the namespace's /proc,
// reports the result, and then sleeps forever. Only a process inside the namespace can mount this
// /proc. pyro-init ignores SIGCHLD, so that the kernel reaps its children, and blocks all other
// signals.
//
// pyro-init consists of about a hundred bytes of assembly (nsinit_*.s). A Go program would need a
// quarter of the start time of a sandbox.

const initName = "pyro-init"

// nsInitCode is the address of the code of pyro-init, and nsInitSize an upper bound of its length.
// The executable also contains bytes that follow the code in the agent's memory. They never run.
var nsInitCode uintptr

const nsInitSize = 512

const (
	// initFile is the path of the executable while pyro-init starts. It is on the /dev of the
	// namespace.
	initFile = "/dev/.pyro-init"
	// initTimeout limits how long pyro-init can take to start.
	initTimeout = 10 * time.Second
)

// initProgram returns the executable of pyro-init: an ELF header, one segment and the code.
func initProgram() []byte {
	const base, headers = 0x400000, 64 + 56
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: headers + nsInitSize, Memsz: headers + nsInitSize, Align: 0x1000,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header)
	binary.Write(&b, binary.LittleEndian, segment)
	b.Write(code())
	return b.Bytes()
}

// startInit starts pyro-init in a new PID namespace, and returns when pyro-init is ready. Later
// children of the calling thread start in that namespace.
func startInit() (*spawn.Process, error) {
	if err := os.WriteFile(initFile, initProgram(), 0o500); err != nil {
		return nil, err
	}
	defer os.Remove(initFile)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	files := []*os.File{null, null, null, w} // pyro-init writes the result of its mount to descriptor 3
	started, err := spawn.Start(initFile, []string{initName}, &os.ProcAttr{
		Dir: "/", Files: files, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true},
	}, openFiles)
	w.Close()
	if err != nil {
		return nil, err
	}
	r.SetReadDeadline(time.Now().Add(initTimeout))
	var result [8]byte
	_, err = io.ReadFull(r, result[:])
	if err == nil {
		if n := int64(binary.NativeEndian.Uint64(result[:])); n < 0 {
			err = fmt.Errorf("mount its /proc: %w", syscall.Errno(-n))
		}
	}
	if err == nil {
		err = started.Join(unix.CLONE_NEWPID)
	}
	if err != nil {
		syscall.Kill(started.PID(), syscall.SIGKILL)
		started.Wait()
		return nil, err
	}
	return started, nil
}

// code returns the code of pyro-init.
func code() []byte {
	at := *(*unsafe.Pointer)(unsafe.Pointer(&nsInitCode)) // go vet rejects a conversion from the number
	return unsafe.Slice((*byte)(at), nsInitSize)
}

// enterEnvironment moves the calling thread into a new mount namespace. The root of the namespace
// is the environment, with all mounts except /proc. If volume is true, the volume's files appear at
// /workspace. The volume must then be mounted.
func enterEnvironment(volume, makeNodes bool) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if volume {
		if err := bindWorkspace(); err != nil {
			return err
		}
	}
	var outer outerDevices
	if !makeNodes {
		var err error
		if outer, err = openDevices("/dev"); err != nil {
			return err
		}
		defer outer.close()
	}
	if err := os.Chdir(envRoot); err != nil {
		return err
	}
	// pivot_root can't replace an initramfs, so the environment is moved over it.
	if err := unix.Mount(envRoot, "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the environment: %w", err)
	}
	if err := errors.Join(unix.Chroot("."), os.Chdir("/")); err != nil {
		return err
	}
	if err := mountAll(userMounts); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll("/proc", 0o755), os.MkdirAll("/run/lock", 0o1777)); err != nil {
		return err
	}
	if makeNodes {
		return makeDevices("/dev")
	}
	return outer.bind("/dev")
}
