package qemu

import (
	"fmt"
	"os"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// diskSize is the virtual size of every disk: images are sparse, and a template keeps its idea of the size.
const diskSize = 16 << 30

// kernelLine is the guest kernel's command line. reboot=t and panic=-1 end QEMU when the kernel panics; random.trust_cpu keeps the first boot from waiting
// for entropy, which Renew replaces in any case. init_on_free=0, whatever the kernel's own choice is: it would count on what is in free memory, which Save leaves out.
//
// An emulated processor has the host's time stamp counter, but on a busy host the kernel fails to find out its frequency, and then waits for ever for a timer
// that this machine type does not have. So it is told the frequency.
//
// Under emulation three defences of the guest against itself are off, which cost it more than all else: where each process has other addresses
// (norandmaps), the emulator translates its code anew, and /bin/true takes 26 ms instead of 7; zeroing what is allocated takes a fifth of the time to
// write a file; and there is no speculation to mitigate. None of them is a part of the wall between the machine and the host.
//
// bare has the agent mount no root before it is told to (internal/agent/guest).
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

// wiring is what a QEMU inherits, in order; the numbers that QEMU knows the files by are given as they are added.
type wiring struct {
	files []*os.File
	sets  int
}

// set adds files that a disk is made of, as one set of descriptors: QEMU takes the one that was opened as it needs it. path is how a disk is told of it.
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

// shape is the part of the command line that makes the machine what it is. A template fits exactly the shape that it was made with.
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

// linked gives the machine's network, whose frames are the packets of an inherited socket.
func linked(fd int) []string {
	return []string{"-netdev", fmt.Sprintf("dgram,id=net,local.type=fd,local.str=%d", fd)}
}

// filter is QEMU's own system call filter.
var filter = []string{"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"}

// stream gives a character device on an inherited socket.
func stream(name string, fd int) []string {
	return []string{"-chardev", fmt.Sprintf("socket,id=%s,fd=%d", name, fd)}
}

// memory maps the machine's memory from an inherited file. share: what the machine writes goes to the file; else it stays the machine's own.
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

// shared gives the window, which the machine sees as a disk without a cache.
func shared(w *wiring, window *os.File) []string {
	args, path := w.set(window)
	return append(args,
		"-blockdev", "driver=file,node-name=window-file,filename="+path+",cache.no-flush=on,locking=off",
		"-blockdev", "driver=raw,node-name=window,file=window-file,cache.no-flush=on")
}

// boot gives the kernel to start, from inherited files.
func boot(kernelFD, initramfsFD int, line string) []string {
	return []string{"-kernel", inherited(kernelFD), "-initrd", inherited(initramfsFD), "-append", line}
}

// ignoreShared leaves the machine's memory out of what is saved: it is in a file already.
var ignoreShared = command{"migrate-set-capabilities", map[string]any{
	"capabilities": []any{map[string]any{"capability": "x-ignore-shared", "state": true}, map[string]any{"capability": "events", "state": true}},
}}

// unannounced keeps QEMU from telling the link the address that the template's interface had.
var unannounced = command{"migrate-set-parameters", map[string]any{"announce-rounds": 0}}
