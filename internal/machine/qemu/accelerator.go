package qemu

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// A process that can open /dev/kvm, or even create virtual processors, can still be unable to run a
// kernel. In some clouds the device belongs to a hypervisor that can't run an ordinary kernel. So
// pyro boots the real kernel once with each accelerator, both at the same time, and stores the
// verdicts.

const (
	// probeLine makes the guest's first program print probeReady and power off.
	probeLine  = " pyro.probe"
	probeReady = "pyro-probe: ready"
	// probeTimeout is the maximum duration of a probe. Emulation is at least ten times slower than
	// KVM. So when emulation has booted the kernel, KVM gets only kvmGrace more.
	probeTimeout = time.Minute
	kvmGrace     = 2 * time.Second
	// refusalLife is how long a negative verdict is valid. A live migration can change what a host
	// can do, and deviceState does not notice that.
	refusalLife = 24 * time.Hour
)

// verdict is the result for one accelerator.
type verdict struct {
	Works       bool      `json:"works"`
	Reason      string    `json:"reason,omitempty"`
	QEMUVersion string    `json:"qemu_version"`
	TSCKHz      int       `json:"tsc_khz,omitempty"` // frequency of the host's time stamp counter
	BootMillis  int64     `json:"boot_ms,omitempty"`
	Device      string    `json:"device"` // deviceState during the probe
	At          time.Time `json:"at"`
}

// readOnlyRAM reports whether this QEMU can map a template's memory from a read-only file. QEMU can
// do so since 8.2.
func (v verdict) readOnlyRAM() bool {
	var major, minor int
	fmt.Sscanf(v.QEMUVersion, "%d.%d", &major, &minor)
	return major > 8 || major == 8 && minor >= 2
}

// Prove checks that the accelerator can run a kernel on this host.
func (d *Driver) Prove(ctx context.Context, report progress.Func) error {
	_, err := d.prove(ctx, report)
	return fault.Wrap(err, "prove accelerator", string(d.cfg.Isolation))
}

func (d *Driver) prove(ctx context.Context, report progress.Func) (verdict, error) {
	if d.cfg.Isolation == machine.KVM {
		if err := kvmUsable(); err != nil {
			return verdict{}, err
		}
	}
	p, err := d.gather(ctx, report)
	if err != nil {
		return verdict{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.verdict == nil || !d.verdict.Works { // a refusal can expire
		v, ok := d.readVerdict(p, d.cfg.Isolation)
		if !ok {
			if v, err = d.find(ctx, p, report); err != nil {
				return verdict{}, err
			}
		}
		d.verdict = &v
	}
	return *d.verdict, d.verdict.err(d.cfg.Isolation)
}

func (v verdict) err(accel machine.Isolation) error {
	if v.Works {
		return nil
	}
	return fault.Newf(fault.Unavailable, "%s", v.Reason)
}

// find tests the accelerators. If another process is already testing them, find waits for that
// process.
func (d *Driver) find(ctx context.Context, p parts, report progress.Func) (verdict, error) {
	folder := filepath.Dir(d.verdictPath(p, d.cfg.Isolation))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return verdict{}, fault.Wrap(err, "make folder of verdicts", folder)
	}
	const what = "testing this host's processor"
	lock, err := flock.Take(ctx, filepath.Join(folder, ".lock"), flock.Exclusive, func() { report.Phase("waiting for another pyro that is "+what, "") })
	if err != nil {
		return verdict{}, fault.Wrap(err, "wait for verdicts", folder)
	}
	defer lock.Release()
	if v, ok := d.readVerdict(p, d.cfg.Isolation); ok {
		return v, nil
	}
	report.Phase(what, "")
	// The name is constant, so that this call removes the files that a crashed process left.
	work := filepath.Join(folder, "probe.part")
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return verdict{}, fault.Wrap(err, "make folder", work)
	}
	defer os.RemoveAll(work)
	return d.race(ctx, p, work)
}

// race boots the kernel with emulation and with KVM, if there is KVM, at the same time. It stores
// both verdicts and returns the one for this driver. If a probe failed for a reason that might be
// gone soon, there is no verdict, and race returns the error. The parameter work is a folder for
// temporary files.
func (d *Driver) race(ctx context.Context, p parts, work string) (verdict, error) {
	version, err := p.binary.Version(ctx)
	if err != nil {
		return verdict{}, err
	}
	tsc := measureTSC()
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("it booted no kernel within %s", probeTimeout))
	defer cancel()
	accels := []machine.Isolation{machine.TCG}
	if kvmUsable() == nil {
		accels = append(accels, machine.KVM)
	}
	type result struct {
		accel machine.Isolation
		v     verdict
		err   error // why there is no verdict
	}
	results := make(chan result)
	kvm, stopKVM := context.WithCancelCause(ctx)
	defer stopKVM(nil)
	for _, accel := range accels {
		go func() {
			in := ctx
			if accel == machine.KVM {
				in = kvm
			}
			began := time.Now()
			v := verdict{QEMUVersion: version, TSCKHz: tsc, Device: deviceState()}
			refusal, err := d.probe(in, p, accel, tsc, work)
			switch {
			case refusal != nil:
				v.Reason, err = refusal.Error(), context.Cause(caller)
			case err == nil:
				v.Works, v.BootMillis = true, time.Since(began).Milliseconds()
			}
			v.At = time.Now().UTC()
			results <- result{accel, v, err}
		}()
	}
	verdicts, failed := map[machine.Isolation]verdict{}, map[machine.Isolation]error{}
	for range accels {
		r := <-results
		if r.err != nil {
			failed[r.accel] = r.err
			continue
		}
		verdicts[r.accel] = r.v
		if r.accel == machine.TCG && r.v.Works {
			late := fmt.Errorf("it booted no kernel, but emulation, which is slower, booted one in %.1f s", float64(r.v.BootMillis)/1000)
			defer time.AfterFunc(kvmGrace, func() { stopKVM(late) }).Stop()
		}
	}
	if err := context.Cause(ctx); err != nil && !verdicts[machine.TCG].Works && !verdicts[machine.KVM].Works {
		return verdict{}, err
	}
	for accel, v := range verdicts {
		if err := d.writeVerdict(p, accel, v); err != nil {
			return verdict{}, err
		}
	}
	return verdicts[d.cfg.Isolation], failed[d.cfg.Isolation]
}

// probe boots the kernel and waits for the line that the guest's first program prints. If QEMU
// exits, crashes or takes too long before that, refusal says why. If the host lacks memory or disk
// space, or QEMU is killed, another probe might succeed. Then probe returns err.
func (d *Driver) probe(ctx context.Context, p parts, accel machine.Isolation, tscKHz int, dir string) (refusal, err error) {
	var f opener
	defer f.close()
	const memMiB = 256
	ram := f.unnamed(dir)
	if f.err == nil {
		f.err = errors.Join(ram.Truncate(memMiB<<20), ram.Chmod(0o666))
	}
	kernel := f.open(p.kernel.Path, os.O_RDONLY)
	initramfs := f.open(p.initramfs.Path, os.O_RDONLY)
	if f.err != nil {
		return nil, f.err
	}
	in, err := start(accel, p.binary.Path, "probe-"+string(accel), dir, func(w *wiring) []string {
		args := shape(accel, 1, memMiB, false)
		args = append(args, memory(w.add(ram), memMiB, true, false)...)
		args = append(append(args, noDisk(rootDisk)...), noDisk(volumeDisk)...)
		return append(args, boot(w.add(kernel), w.add(initramfs), kernelLine(accel, tscKHz, false)+probeLine)...)
	})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	select {
	case <-in.done:
		if strings.Contains(in.console.String(), probeReady) {
			return nil, nil
		}
		switch in.process.Signal() {
		case 0, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGILL, syscall.SIGFPE:
			return in.Err(), nil
		default: // SIGBUS means that the disk is full
			return nil, in.Err()
		}
	case <-ctx.Done():
		return context.Cause(ctx), nil
	}
}

// verdictPath returns the path of a verdict's file. The path depends on the kernel, QEMU and the
// processor.
func (d *Driver) verdictPath(p parts, accel machine.Isolation) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(accel), p.binary.ID, p.kernel.Digest, hostProcessor()}, "\n")))
	return filepath.Join(d.cfg.Dirs.Cache, "accelerators", hex.EncodeToString(sum[:8])+".json")
}

func (d *Driver) readVerdict(p parts, accel machine.Isolation) (verdict, bool) {
	var v verdict
	b, err := os.ReadFile(d.verdictPath(p, accel))
	if err != nil || json.Unmarshal(b, &v) != nil {
		return verdict{}, false
	}
	if v.TSCKHz == 0 && runtime.GOARCH == "amd64" {
		return verdict{}, false
	}
	age := time.Since(v.At) // negative if the host's clock was set back
	return v, v.Works || age >= 0 && age < refusalLife && v.Device == deviceState()
}

// deviceState identifies this boot of the host and its /dev/kvm. It changes when a user reboots the
// host or loads the module of KVM again, for example after a change of its options.
func deviceState() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var kvm unix.Stat_t
	unix.Stat(kvmDevice, &kvm) // all zero if there is no device
	return fmt.Sprintf("%s %d %d.%09d", strings.TrimSpace(string(boot)), kvm.Ino, kvm.Ctim.Sec, kvm.Ctim.Nsec)
}

func (d *Driver) writeVerdict(p parts, accel machine.Isolation, v verdict) error {
	path := d.verdictPath(p, accel)
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = durable.Replacement{Unflushed: true}.Write(path, b)
	}
	return fault.Wrap(err, "keep verdict", path)
}

// hostProcessor identifies the model of the host's processor and the release of the host's kernel.
func hostProcessor() string {
	var id strings.Builder
	var name unix.Utsname
	unix.Uname(&name)
	id.WriteString(unix.ByteSliceToString(name.Release[:]))
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return id.String() + runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && lines.Text() != ""; {
		switch key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) {
		case "vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part":
			id.WriteString(value)
		}
	}
	return id.String()
}
