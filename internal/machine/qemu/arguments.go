package qemu

import (
	"fmt"
	"os"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// diskSize is the virtual size of each disk, in bytes. It can't change after a template is made.
// The images are sparse.
const diskSize = 16 << 30

// kernelLine returns the guest kernel's command line. With reboot=t and panic=-1, QEMU exits if the
// kernel panics. With random.trust_cpu the first boot does not wait for entropy, and Renew replaces
// that entropy anyway. With init_on_free=0 the kernel does not rely on the content of free memory,
// because Save leaves free memory out.
//
// An emulated processor has the host's time stamp counter. On a busy host the kernel can't measure
// the frequency of this counter. It then waits forever for a timer that this machine type lacks. So
// the command line contains the frequency.
//
// Under emulation three defences of the guest against its own processes are off, because they are
// slow. With norandmaps each process has the same addresses, and QEMU translates code only once:
// /bin/true takes 7 ms instead of 26 ms. Without init_on_alloc=0, zeroing memory takes a fifth of
// the time to write a file. An emulated processor does not speculate, so there is nothing to
// mitigate. The isolation between machine and host does not depend on these defences.
//
// If bare is true, the agent mounts no root before Mount (internal/agent/guest).
func kernelLine(accel machine.Isolation, tscKHz int, bare bool) string {
	line := "console=ttyS0 quiet reboot=t panic=-1 random.trust_cpu=on init_on_free=0"
	if bare {
		line += " pyro.bare"
	}
	if accel != machine.TCG {
		return line
	}
	line += " norandmaps init_on_alloc=0 mitigations=off"
	if tscKHz > 0 {
		line += fmt.Sprintf(" no_timer_check tsc=reliable tsc_early_khz=%d", tscKHz)
	}
	return line
}

// wiring lists the files that a QEMU process inherits, in order. Its methods return the descriptor
// numbers of these files in QEMU.
type wiring struct {
	files []*os.File
	sets  int
}

// set adds the files of a disk as one set of descriptors. QEMU chooses the descriptor with the
// right access mode. The result path is the name of the set.
func (w *wiring) set(files ...*os.File) (args []string, path string) {
	w.sets++
	for _, f := range files {
		args = append(args, "-add-fd", fmt.Sprintf("fd=%d,set=%d", w.add(f), w.sets))
	}
	return args, setPath(w.sets)
}

func setPath(set int) string { return fmt.Sprintf("/dev/fdset/%d", set) }

func (w *wiring) add(f *os.File) int {
	w.files = append(w.files, f)
	return process.FirstFD + len(w.files) - 1
}

// shape returns the arguments that define the machine. A machine can be restored from a template
// only with the same shape.
func shape(accel machine.Isolation, vcpus, memMiB int, networked bool) []string {
	cpu, accelerator := "max,-erms,-fsrm", "tcg,thread=multi,tb-size=128"
	if accel == machine.KVM {
		cpu, accelerator = "host,migratable=on", "kvm"
	}
	args := []string{
		"-M", "microvm,acpi=on,rtc=on,x-option-roms=off,isa-serial=on,memory-backend=mem",
		"-accel", accelerator, "-cpu", cpu, "-smp", fmt.Sprint(vcpus), "-m", fmt.Sprintf("%dM", memMiB),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-device", "virtio-serial-device",
		"-device", "virtserialport,chardev=agent,name=agent",
		"-device", "virtio-blk-device,drive=root,serial=root",
		"-device", "virtio-blk-device,drive=window,serial=window",
		"-device", "virtio-blk-device,drive=volume,serial=volume",
		"-serial", "chardev:console",
	}
	if networked {
		args = append(args, "-device", "virtio-net-device,netdev=net,rx_queue_size=512")
	}
	return args
}

// linked returns the arguments for the machine's network. Each packet on the inherited socket is an
// Ethernet frame.
func linked(fd int) []string {
	return []string{"-netdev", fmt.Sprintf("dgram,id=net,local.type=fd,local.str=%d", fd)}
}

// filter turns on QEMU's own system call filter.
var filter = []string{"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"}

// stream returns the arguments for a character device on an inherited socket.
func stream(name string, fd int) []string {
	return []string{"-chardev", fmt.Sprintf("socket,id=%s,fd=%d", name, fd)}
}

// memory returns the arguments that map the machine's memory from an inherited file. If share is
// true, writes go to the file. Otherwise they are private.
func memory(fd, memMiB int, share, readOnlyFile bool) []string {
	object := fmt.Sprintf("memory-backend-file,id=mem,size=%dM,mem-path=%s,share=", memMiB, inherited(fd))
	switch {
	case share:
		object += "on"
	case readOnlyFile:
		object += "off,readonly=on,rom=off"
	default:
		object += "off"
	}
	return []string{"-object", object}
}

// shared returns the arguments for the shared buffer, which the machine sees as an uncached disk.
func shared(w *wiring, buffer *os.File) []string {
	args, path := w.set(buffer)
	return append(args,
		"-blockdev", "driver=file,node-name=window-file,filename="+path+",cache.no-flush=on,locking=off",
		"-blockdev", "driver=raw,node-name=window,file=window-file,cache.no-flush=on")
}

// boot returns the arguments for the kernel and its initramfs, which are inherited files.
func boot(kernelFD, initramfsFD int, line string) []string {
	return []string{"-kernel", inherited(kernelFD), "-initrd", inherited(initramfsFD), "-append", line}
}

// ignoreShared leaves the machine's memory out of the saved state, because a file already contains
// it.
var ignoreShared = command{"migrate-set-capabilities", map[string]any{
	"capabilities": []any{map[string]any{"capability": "x-ignore-shared", "state": true}, map[string]any{"capability": "events", "state": true}},
}}

// unannounced stops QEMU from announcing the template's MAC address on the link.
var unannounced = command{"migrate-set-parameters", map[string]any{"announce-rounds": 0}}
