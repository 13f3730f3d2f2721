package pyro

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Defaults of RunInVM.
const (
	DefaultVCPUCount      = 1
	DefaultMemMiB         = 1024
	DefaultTimeoutSeconds = 30
	DefaultTTLSeconds     = 600
)

// DefaultDiskMiB is the default size of /workspace.
const DefaultDiskMiB = store.DefaultDiskMiB

// Limits of requests.
const (
	MaxVCPUCount = 32
	MinMemMiB    = 128              // the maximum is the host's memory
	MinDiskMiB   = store.MinDiskMiB // for CreateWorkspaceRequest.DiskMiB
	MaxDiskMiB   = store.MaxDiskMiB
	MaxSeconds   = 30 * 24 * 60 * 60 // maximum of every time limit
	MaxArguments = 4 << 20           // total bytes of all arguments; the same limit applies to all environment variables
	MaxOutput    = 16 << 20          // bytes per output stream in a result
)

// ErrNoCommand is the cause of the error of RunInVM if neither the request nor the environment has
// a command.
var ErrNoCommand = environment.ErrNoCommand

// RunInVMRequest describes a machine and the command to run in it. Only Environment is required.
// With neither Argv nor Command, the environment's own command runs: Environment.Entrypoint
// followed by Environment.Cmd. If the environment has no command, the error has kind Invalid and
// the cause ErrNoCommand.
type RunInVMRequest struct {
	Environment string `json:"environment"` // such as debian:12, or an OCI reference

	Argv    []string          `json:"argv,omitempty"`    // the program and its arguments; an entry point of the image does not apply
	Command string            `json:"command,omitempty"` // instead of Argv: a command line for /bin/sh -lc
	Env     map[string]string `json:"env,omitempty"`     // extra environment variables
	User    string            `json:"user,omitempty"`    // name or number, optionally with :group; default the environment's user
	Cwd     string            `json:"cwd,omitempty"`     // working directory: absolute; default the environment's

	VCPUCount      int `json:"vcpu_count,omitempty"`      // 1 to MaxVCPUCount; default DefaultVCPUCount
	MemMiB         int `json:"mem_mib,omitempty"`         // MinMemMiB to the host's memory; default DefaultMemMiB.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"` // time limit of the command, which is then killed with its children; default DefaultTimeoutSeconds.
	TTLSeconds     int `json:"ttl_seconds,omitempty"`     // time limit of the machine, which is then deleted even if a command runs; default DefaultTTLSeconds.

	Isolation Isolation `json:"isolation,omitempty"` // one of Isolations; default: the variable PYRO_ISOLATION, or IsolationAuto if it is not set

	Network     bool     `json:"network,omitempty"`      // allow the public Internet, as NetworkEgress does
	EgressAllow []string `json:"egress_allow,omitempty"` // as in CreateWorkspaceRequest
	EgressDeny  []string `json:"egress_deny,omitempty"`

	HostNetworkSettings    bool     `json:"host_network_settings,omitempty"`    // as in CreateWorkspaceRequest
	HostNetworkCredentials []string `json:"host_network_credentials,omitempty"` // as in CreateWorkspaceRequest

	AllowHostCompat bool `json:"allow_host_compat,omitempty"` // if no machine can be started, run on the host without isolation

	// Stdin is the command's input. If it is nil, the input is empty. RunInVM does not wait for a
	// blocked Read after the command has ended.
	Stdin io.Reader `json:"-"`
	// Stdout and Stderr receive the output as soon as the command writes it, in addition to the
	// result. They can be nil. A slow writer slows the command down. If a writer fails, the command
	// is ended.
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
	// StreamOnly omits the output from the result, to save memory.
	StreamOnly bool `json:"-"`
	// TTY gives the command a terminal. All output then goes to Stdout.
	TTY *TTY `json:"-"`
	// Signals delivers the signals to send to the command's process group. A signal that arrives
	// while the machine is starting ends the run with an error of kind Canceled.
	Signals <-chan syscall.Signal `json:"-"`
	// OnStart is called once, just before the command starts.
	OnStart func(RunStart) `json:"-"`
	// Progress receives reports about preparations, such as the pull of an environment.
	Progress ProgressFunc `json:"-"`
}

// TTY is a terminal for a command.
type TTY struct {
	Size   WindowSize        // initial size
	Resize <-chan WindowSize // later sizes; can be nil
	Term   string            // the variable TERM of the command; default xterm-256color
}

// WindowSize is the size of a terminal in characters. Cols and Rows must be 1 to 1000.
type WindowSize struct {
	Cols, Rows int
}

// complete sets the defaults of a request and checks its limits. It starts nothing and reads no
// file.
func (r *RunInVMRequest) complete() error {
	if r.Environment == "" {
		return invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	var err error
	if len(r.Argv) > 0 || r.Command != "" {
		if r.Argv, err = argvOf(r.Argv, r.Command); err != nil {
			return err
		}
	}
	if err := completeMachine(&r.VCPUCount, &r.MemMiB, &r.TTLSeconds, &r.Isolation); err != nil {
		return err
	}
	if err := completeNumber("timeout_seconds", &r.TimeoutSeconds, DefaultTimeoutSeconds, 1, MaxSeconds); err != nil {
		return err
	}
	network, err := r.network()
	if err != nil {
		return err
	}
	if err := network.check(); err != nil {
		return err
	}
	if t := r.TTY; t != nil && !t.Size.valid() {
		return invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", t.Size.Cols, t.Size.Rows)
	}
	if r.Cwd != "" && !strings.HasPrefix(r.Cwd, "/") {
		return invalid("cwd is %q: it must be absolute", r.Cwd)
	}
	return errors.Join(checkStrings(r.Argv, r.Env), checkUser(r.User))
}

func (r *RunInVMRequest) network() (networkRequest, error) {
	return vmNetwork(r.Network, networkRequest{allow: r.EgressAllow, deny: r.EgressDeny, host: r.HostNetworkSettings, credentials: r.HostNetworkCredentials})
}

// argvOf returns the program and arguments to run. A request must contain either argv or a command
// line for a shell.
func argvOf(argv []string, command string) ([]string, error) {
	switch {
	case len(argv) == 0 && command == "":
		return nil, invalid("%w", ErrNoCommand)
	case len(argv) > 0 && command != "":
		return nil, invalid("argv and command exclude each other")
	case len(argv) == 0:
		return []string{"/bin/sh", "-lc", command}, nil
	}
	return argv, nil
}

// completeMachine sets the defaults of a machine and checks the limits.
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

// completeIsolation sets the default isolation level, or checks the requested one.
func completeIsolation(isolation *Isolation) error {
	if *isolation == "" {
		*isolation = cmp.Or(Isolation(os.Getenv("PYRO_ISOLATION")), IsolationAuto)
	}
	if !slices.Contains(Isolations, *isolation) {
		return invalid("isolation is %q: it must be one of %s", *isolation, listed(Isolations)).WithHint("pyro doctor")
	}
	return nil
}

// completeNumber replaces 0 by the default, then checks that the value is from low to up.
func completeNumber(name string, value *int, byDefault, low, up int) error {
	if *value == 0 {
		*value = byDefault
	}
	if *value < low || *value > up {
		return invalid("%s is %d: it must be %d to %d", name, *value, low, up)
	}
	return nil
}

// checkStrings rejects arguments and variables that can't be passed to a process.
func checkStrings(argv []string, env map[string]string) error {
	total := 0
	for _, a := range argv {
		total += len(a) + 1
		if strings.ContainsRune(a, 0) {
			return invalid("an argument contains a NUL byte")
		}
	}
	if len(argv) > 0 && argv[0] == "" {
		return invalid("the name of the program is empty")
	}
	if total > MaxArguments {
		return invalid("%d bytes of arguments: at most %d", total, MaxArguments).WithHint("pass large data on the standard input")
	}
	return checkEnv(env)
}

// maxUser is the maximum length of the user of a command, in bytes.
const maxUser = 256

// checkUser rejects texts that cannot be a user.
func checkUser(user string) error {
	if len(user) > maxUser || strings.ContainsFunc(user, unicode.IsControl) || !utf8.ValidString(user) {
		return invalid("user is %.80q: it must be a name or number, optionally with :group", user)
	}
	return nil
}

func checkEnv(env map[string]string) error { return program.CheckEnv(env, MaxArguments) }

// terminal returns the terminal for a command, or nil if t is nil.
func (t *TTY) terminal() *program.Terminal {
	if t == nil {
		return nil
	}
	return &program.Terminal{Cols: t.Size.Cols, Rows: t.Size.Rows, Term: t.Term}
}

func (s WindowSize) valid() bool {
	return min(s.Cols, s.Rows) >= 1 && max(s.Cols, s.Rows) <= program.MaxSide
}

// listed joins isolation levels with commas.
func listed(words []Isolation) string {
	var text []string
	for _, w := range words {
		text = append(text, string(w))
	}
	return strings.Join(text, ", ")
}

func invalid(format string, args ...any) *Error { return fault.Newf(Invalid, format, args...) }

// hostMemMiB returns the host's memory in MiB, or MinMemMiB if it is unknown.
func hostMemMiB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return MinMemMiB
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
}
