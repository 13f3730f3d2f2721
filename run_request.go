package pyro

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// What RunInVM takes where a request says nothing.
const (
	DefaultVCPUCount      = 1
	DefaultMemMiB         = 1024
	DefaultTimeoutSeconds = 30
	DefaultTTLSeconds     = 600
)

// DefaultDiskMiB is the size of /workspace that CreateWorkspace takes if a request gives none.
const DefaultDiskMiB = store.DefaultDiskMiB

// The bounds of a request.
const (
	MaxVCPUCount = 32
	MinMemMiB    = 128              // the upper bound is the memory of the host
	MinDiskMiB   = store.MinDiskMiB // of CreateWorkspaceRequest.DiskMiB
	MaxDiskMiB   = store.MaxDiskMiB
	MaxSeconds   = 30 * 24 * 60 * 60 // of every time limit
	MaxArguments = 4 << 20           // bytes of all arguments and of all of Env, each
	MaxOutput    = 16 << 20          // bytes of each stream that a result holds
)

// RunInVMRequest says what to run, and in what. Only Environment and one of Argv and Command have to be set.
type RunInVMRequest struct {
	Environment string `json:"environment"` // such as debian:12, or an OCI reference

	Argv    []string          `json:"argv,omitempty"`    // the program and its arguments, as they are
	Command string            `json:"command,omitempty"` // or a line for the guest's /bin/sh -lc
	Env     map[string]string `json:"env,omitempty"`     // added to that of the environment

	VCPUCount      int `json:"vcpu_count,omitempty"`      // 1 to MaxVCPUCount; default DefaultVCPUCount
	MemMiB         int `json:"mem_mib,omitempty"`         // MinMemMiB to the host's memory; default DefaultMemMiB
	TimeoutSeconds int `json:"timeout_seconds,omitempty"` // of the command, which is killed with all it started; default DefaultTimeoutSeconds
	TTLSeconds     int `json:"ttl_seconds,omitempty"`     // of the machine, which is gone by then whatever happens; default DefaultTTLSeconds

	Isolation Isolation `json:"isolation,omitempty"` // one of Isolations; default PYRO_ISOLATION, else IsolationAuto

	Network     bool     `json:"network,omitempty"`      // it reaches the public Internet, as with NetworkEgress
	EgressAllow []string `json:"egress_allow,omitempty"` // as for a workspace
	EgressDeny  []string `json:"egress_deny,omitempty"`

	AllowHostCompat bool `json:"allow_host_compat,omitempty"` // where no machine can be started, run on the host, isolated by nothing

	// Stdin is passed to the command up to its end. nil: the command's input is at its end from the start. RunInVM does not wait for a Read that does not
	// return when the command has ended: it is abandoned.
	Stdin io.Reader `json:"-"`
	// Stdout and Stderr receive the output as it comes. A slow writer slows the command down; one that fails ends it. nil: it is in the result.
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
	// TTY gives the command a terminal, whose output is all Stdout.
	TTY *TTY `json:"-"`
	// Signals are passed on to the command's process group. One that comes before the command has started ends the run with an error of kind Canceled.
	Signals <-chan syscall.Signal `json:"-"`
	// OnStart is called once, just before the command starts.
	OnStart func(RunStart) `json:"-"`
	// Progress hears of what is made on first use.
	Progress ProgressFunc `json:"-"`
}

// TTY is a terminal for a command.
type TTY struct {
	Size   WindowSize        // at the start
	Resize <-chan WindowSize // later; may be nil
	Term   string            // TERM of the command; default xterm-256color
}

// WindowSize is that of a terminal, in characters, 1 to 1000 each.
type WindowSize struct {
	Cols, Rows int
}

// complete puts the defaults in and checks the bounds. It starts nothing and reads no file.
func (r *RunInVMRequest) complete() error {
	if r.Environment == "" {
		return invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	var err error
	if r.Argv, err = program(r.Argv, r.Command); err != nil {
		return err
	}
	if err := completeMachine(&r.VCPUCount, &r.MemMiB, &r.TTLSeconds, &r.Isolation); err != nil {
		return err
	}
	if err := completeNumber("timeout_seconds", &r.TimeoutSeconds, DefaultTimeoutSeconds, 1, MaxSeconds); err != nil {
		return err
	}
	if _, err := networkPolicy(r.Network, r.EgressAllow, r.EgressDeny); err != nil {
		return err
	}
	if t := r.TTY; t != nil && !t.Size.valid() {
		return invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", t.Size.Cols, t.Size.Rows)
	}
	return checkStrings(r.Argv, r.Env)
}

// program is what is run for an argv, as it is, or for a line of a shell: one of the two.
func program(argv []string, command string) ([]string, error) {
	switch {
	case len(argv) == 0 && command == "":
		return nil, invalid("nothing to run: set argv or command")
	case len(argv) > 0 && command != "":
		return nil, invalid("argv and command exclude each other")
	case len(argv) == 0:
		return []string{"/bin/sh", "-lc", command}, nil
	}
	return argv, nil
}

// completeMachine puts in the defaults of a machine and checks the bounds.
func completeMachine(vcpus, memMiB, ttl *int, isolation *Isolation) error {
	for _, err := range []error{
		completeNumber("vcpu_count", vcpus, DefaultVCPUCount, 1, MaxVCPUCount),
		completeNumber("mem_mib", memMiB, DefaultMemMiB, MinMemMiB, hostMemMiB()),
		completeNumber("ttl_seconds", ttl, DefaultTTLSeconds, 1, MaxSeconds),
	} {
		if err != nil {
			return err
		}
	}
	return completeIsolation(isolation)
}

// completeIsolation puts in the default and checks that there is such a level.
func completeIsolation(isolation *Isolation) error {
	if *isolation == "" {
		*isolation = cmp.Or(Isolation(os.Getenv("PYRO_ISOLATION")), IsolationAuto)
	}
	if !slices.Contains(Isolations, *isolation) {
		return invalid("isolation is %q: it must be one of %s", *isolation, listed(Isolations)).WithHint("pyro doctor")
	}
	return nil
}

// completeNumber puts a default in the place of 0 and checks the bounds.
func completeNumber(name string, value *int, byDefault, low, up int) error {
	if *value == 0 {
		*value = byDefault
	}
	if *value < low || *value > up {
		return invalid("%s is %d: it must be %d to %d", name, *value, low, up)
	}
	return nil
}

// checkStrings refuses what no process can be given.
func checkStrings(argv []string, env map[string]string) error {
	total := 0
	for _, a := range argv {
		total += len(a) + 1
		if strings.ContainsRune(a, 0) {
			return invalid("an argument holds a NUL byte")
		}
	}
	if argv[0] == "" {
		return invalid("the name of the program is empty")
	}
	if total > MaxArguments {
		return invalid("%d bytes of arguments: at most %d", total, MaxArguments).WithHint("pass large data on the standard input")
	}
	return checkEnv(env)
}

// checkEnv refuses what can't be environment variables.
func checkEnv(env map[string]string) error {
	total := 0
	for name, value := range env {
		total += len(name) + len(value) + 2
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("%q is no environment variable", name)
		}
	}
	if total > MaxArguments {
		return invalid("%d bytes of environment variables: at most %d", total, MaxArguments)
	}
	return nil
}

func (s WindowSize) valid() bool {
	return s.Cols >= 1 && s.Cols <= 1000 && s.Rows >= 1 && s.Rows <= 1000
}

// listed gives words as a sentence has them.
func listed(words []Isolation) string {
	var text []string
	for _, w := range words {
		text = append(text, string(w))
	}
	return strings.Join(text, ", ")
}

func invalid(format string, args ...any) *Error { return fault.Newf(Invalid, format, args...) }

// hostMemMiB is the memory of this host.
func hostMemMiB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return MinMemMiB
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
}
