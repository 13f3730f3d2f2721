package filter

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	_ "gvisor.dev/gvisor/pkg/sentry/platform/platforms" // systrap is one
	"gvisor.dev/gvisor/runsc/boot/filter"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
	goferconfig "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

// TestFilterMatchesGVisor compiles the rules of a sentry as gVisor does, and compares the decisions
// of both programs. It tries all system calls. The arguments are values from the rules, neighbours
// of these values, and random values.
func TestFilterMatchesGVisor(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no filters for this architecture")
	}
	systrap, err := platform.Lookup("systrap")
	if err != nil {
		t.Fatal(err)
	}
	Register()
	for _, info := range systrap.PrecompiledSeccompInfo() {
		options := config.Options{Platform: info, ControllerFD: 17}
		ready, ok := filter.GetPrecompiled(options.ConfigKey())
		if !ok {
			t.Fatalf("no filter for %s: go generate ./filter", options.ConfigKey())
		}
		ours, err := ready.RenderInstructions(options.Vars())
		if err != nil {
			t.Fatal(err)
		}
		rules, denied := config.Rules(options)
		program := &seccomp.Program{
			RuleSets: []seccomp.RuleSet{{Rules: denied}, {Rules: rules, Action: seccomp.Allow}}, Options: config.SeccompOptions(options),
		}
		theirs, _, err := program.Build()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, ours, theirs)
	}
}

// TestGoferFilterMatchesGVisor does the same for the gofer's programs, which also contain the extra
// rule of Gofer.
func TestGoferFilterMatchesGVisor(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no filters for this architecture")
	}
	registerForGofer()
	ready, ok := gofer.GetPrecompiled(Gofer.ConfigKey())
	if !ok {
		t.Fatalf("no filter for %s: go generate ./filter", Gofer.ConfigKey())
	}
	ours, err := ready.RenderInstructions(Gofer.Vars())
	if err != nil {
		t.Fatal(err)
	}
	rules, denied := goferconfig.Rules(Gofer)
	program := &seccomp.Program{RuleSets: []seccomp.RuleSet{{Rules: denied}, {Rules: rules, Action: seccomp.Allow}}}
	theirs, _, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, ours, theirs)
}

func compare(t *testing.T, ours, theirs []bpf.Instruction) {
	t.Helper()
	first, err1 := bpf.Compile(ours, false)
	second, err2 := bpf.Compile(theirs, false)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	values := []uint64{0, 1<<32 - 1, 1<<64 - 1}
	for _, i := range append(append([]bpf.Instruction{}, ours...), theirs...) {
		values = append(values, uint64(i.K), uint64(i.K)-1, uint64(i.K)+1, uint64(i.K)<<32)
	}
	random := rand.New(rand.NewPCG(1, 2))
	value := func() uint64 { return values[random.IntN(len(values))] }
	allowed, buffer := 0, make([]byte, 64)
	for number := range int32(500) {
		for range 2000 {
			data := linux.SeccompData{Nr: number, Arch: linux.AUDIT_ARCH_X86_64, InstructionPointer: random.Uint64()}
			for i := range data.Args {
				switch random.IntN(8) {
				case 0:
					data.Args[i] = random.Uint64()
				case 1:
					one, another := value(), value()
					data.Args[i] = one | another
				default:
					data.Args[i] = value()
				}
			}
			input := seccomp.DataAsBPFInput(&data, buffer)
			a, err1 := bpf.Exec[bpf.NativeEndian](first, input)
			b, err2 := bpf.Exec[bpf.NativeEndian](second, input)
			if err1 != nil || err2 != nil || a != b {
				t.Fatalf("%+v: ours says %x, gVisor's %x, %v %v: go generate ./filter", data, a, b, err1, err2)
			}
			if a == uint32(linux.SECCOMP_RET_ALLOW) {
				allowed++
			}
		}
	}
	if allowed == 0 || allowed == 500*2000 {
		t.Errorf("%d system calls are allowed", allowed)
	}
}
