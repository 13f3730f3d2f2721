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

// The keeper is PID 1 of the namespace in which the user's processes run. It mounts that namespace's /proc, which only a process inside it can, says what came
// of that, and does nothing ever after: it ignores the ends of its children, which the kernel reaps then, and blocks every signal. Since a Go program would
// take a quarter of a sandbox's start for that, it is a hundred bytes of assembly (keeper_*.s), which the agent writes to a file and starts.

// KeeperName is what the keeper is called among the user's processes.
const KeeperName = "pyro-keeper"

// keeperCode is the address of the keeper's code; keeperSize is no less than its length. What follows it in the agent's memory is copied too, and never run.
var keeperCode uintptr

const keeperSize = 512

const (
	// keeperFile is where it is while it is started, on the namespace's own /dev.
	keeperFile = "/dev/.pyro-keeper"
	// keeperPatience bounds how long it may take to.
	keeperPatience = 10 * time.Second
)

// keeperProgram is the keeper as a program: an ELF header, one segment, the code.
func keeperProgram() []byte {
	const base, headers = 0x400000, 64 + 56
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: headers + keeperSize, Memsz: headers + keeperSize, Align: 0x1000,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header)
	binary.Write(&b, binary.LittleEndian, segment)
	b.Write(code())
	return b.Bytes()
}

// startKeeper starts the keeper in a new PID namespace, which the calling thread's further children are in too, and returns when that is ready.
func startKeeper() (*spawn.Process, error) {
	if err := os.WriteFile(keeperFile, keeperProgram(), 0o500); err != nil {
		return nil, err
	}
	defer os.Remove(keeperFile)
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
	files := []*os.File{null, null, null, w} // on the last, 3, it says what came of its mount
	keeper, err := spawn.Start(keeperFile, []string{KeeperName}, &os.ProcAttr{
		Dir: "/", Files: files, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true},
	}, openFiles)
	w.Close()
	if err != nil {
		return nil, err
	}
	r.SetReadDeadline(time.Now().Add(keeperPatience))
	var said [8]byte
	_, err = io.ReadFull(r, said[:])
	if err == nil {
		if result := int64(binary.NativeEndian.Uint64(said[:])); result < 0 {
			err = fmt.Errorf("mount its /proc: %w", syscall.Errno(-result))
		}
	}
	if err == nil {
		err = keeper.Join(unix.CLONE_NEWPID)
	}
	if err != nil {
		syscall.Kill(keeper.PID(), syscall.SIGKILL)
		keeper.Wait()
		return nil, err
	}
	return keeper, nil
}

// code gives the keeper's code.
func code() []byte {
	at := *(*unsafe.Pointer)(unsafe.Pointer(&keeperCode)) // not from the number, which vet takes for a pointer that may have moved
	return unsafe.Slice((*byte)(at), keeperSize)
}

// enterEnvironment gives the calling thread a mount namespace of its own, with the environment as root and all that belongs over it but its /proc. volume: the
// volume is mounted, and belongs there too.
func enterEnvironment(volume bool) error {
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
	if err := os.Chdir(envRoot); err != nil {
		return err
	}
	// The first root can't be pivoted away from: the environment is moved over it.
	if err := unix.Mount(envRoot, "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the environment: %w", err)
	}
	if err := errors.Join(unix.Chroot("."), os.Chdir("/")); err != nil {
		return err
	}
	if err := mountAll(userMounts); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll("/proc", 0o755), makeDevices("/dev"), os.MkdirAll("/run/lock", 0o1777))
}
