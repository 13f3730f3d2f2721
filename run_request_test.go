package pyro

import (
	"slices"
	"strings"
	"testing"
)

func TestRequestDefaults(t *testing.T) {
	r := RunInVMRequest{Environment: "debian:12", Command: "echo $HOME"}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	if r.VCPUCount != 1 || r.MemMiB != 1024 || r.TimeoutSeconds != 30 || r.TTLSeconds != 600 {
		t.Errorf("defaults: %+v", r)
	}
	if want := []string{"/bin/sh", "-lc", "echo $HOME"}; !slices.Equal(r.Argv, want) {
		t.Errorf("argv %q, want %q", r.Argv, want)
	}
}

func TestRequestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*RunInVMRequest)
		kind   Kind
		says   string
	}{
		"no environment":         {func(r *RunInVMRequest) { r.Environment = "" }, Invalid, "environment is missing"},
		"both":                   {func(r *RunInVMRequest) { r.Command = "true" }, Invalid, "exclude each other"},
		"empty program":          {func(r *RunInVMRequest) { r.Argv = []string{""} }, Invalid, "program is empty"},
		"NUL":                    {func(r *RunInVMRequest) { r.Argv = []string{"echo", "a\x00b"} }, Invalid, "NUL"},
		"10 MB of arguments":     {func(r *RunInVMRequest) { r.Argv = []string{"echo", strings.Repeat("x", 10<<20)} }, Invalid, "10485766 bytes of arguments"},
		"too many CPUs":          {func(r *RunInVMRequest) { r.VCPUCount = 33 }, Invalid, "vcpu_count is 33: it must be 1 to 32"},
		"negative CPUs":          {func(r *RunInVMRequest) { r.VCPUCount = -1 }, Invalid, "vcpu_count"},
		"little memory":          {func(r *RunInVMRequest) { r.MemMiB = 127 }, Invalid, "mem_mib is 127"},
		"more than the host has": {func(r *RunInVMRequest) { r.MemMiB = 1 << 40 }, Invalid, "mem_mib"},
		"time":                   {func(r *RunInVMRequest) { r.TimeoutSeconds = MaxSeconds + 1 }, Invalid, "timeout_seconds"},
		"time to live":           {func(r *RunInVMRequest) { r.TTLSeconds = -5 }, Invalid, "ttl_seconds"},
		"rules, no network":      {func(r *RunInVMRequest) { r.EgressDeny = []string{"x.test"} }, Invalid, "there are network rules, but the network is off"},
		"no rule":                {func(r *RunInVMRequest) { r.Network, r.EgressAllow = true, []string{"https://x.test"} }, Invalid, "rule to allow: \"https://x.test\" is not a rule"},
		"too many rules":         {func(r *RunInVMRequest) { r.Network, r.EgressDeny = true, slices.Repeat([]string{"x.test"}, 257) }, Invalid, "257 rules to deny: at most 256"},
		"relative folder":        {func(r *RunInVMRequest) { r.Cwd = "srv" }, Invalid, "cwd is \"srv\": it must be absolute"},
		"user with a line":       {func(r *RunInVMRequest) { r.User = "a\nroot" }, Invalid, "user is \"a\\nroot\": it must be a name or number, optionally with :group"},
		"user with NUL":          {func(r *RunInVMRequest) { r.User = "a\x00" }, Invalid, "user is"},
		"long user":              {func(r *RunInVMRequest) { r.User = strings.Repeat("u", 257) }, Invalid, "user is"},
		"no terminal":            {func(r *RunInVMRequest) { r.TTY = &TTY{} }, Invalid, "terminal of 0 x 0"},
		"variable":               {func(r *RunInVMRequest) { r.Env = map[string]string{"A=B": "c"} }, Invalid, "not an environment variable"},
		"huge variable":          {func(r *RunInVMRequest) { r.Env = map[string]string{"A": strings.Repeat("x", 5<<20)} }, Invalid, "bytes of environment variables"},
	} {
		t.Run(name, func(t *testing.T) {
			r := RunInVMRequest{Environment: "debian:12", Argv: []string{"true"}}
			c.change(&r)
			err := r.complete()
			if KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q: %v", KindOf(err), err)
			}
		})
	}
}

func TestRequestNetwork(t *testing.T) {
	r := RunInVMRequest{Environment: "debian:12", Argv: []string{"true"}, Network: true, EgressAllow: []string{"*.x.test:443", "10.1.0.0/16"}, EgressDeny: []string{"10.1.1.1"}}
	if err := r.complete(); err != nil {
		t.Error(err)
	}
	r.Network = false
	if err := r.complete(); HintOf(err) != "--network" {
		t.Errorf("%v, hint %q", err, HintOf(err))
	}
}

func TestRequestIsolation(t *testing.T) {
	for _, c := range []struct {
		asked, environment, want Isolation
	}{{"", "", "auto"}, {"", "tcg", "tcg"}, {"gvisor", "tcg", "gvisor"}, {"auto", "tcg", "auto"}, {"none", "", ""}, {"", "xen", ""}, {"KVM", "", ""}} {
		t.Setenv("PYRO_ISOLATION", string(c.environment))
		r := RunInVMRequest{Environment: "debian:12", Argv: []string{"true"}, Isolation: c.asked}
		err := r.complete()
		if c.want == "" && KindOf(err) != Invalid || c.want != "" && (err != nil || r.Isolation != c.want) {
			t.Errorf("%+v: %q, %v", c, r.Isolation, err)
		}
	}
}
