package hostagent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// TestContract compares the service with the control plane's contract in testdata/contract.golden.
// It compares calls, types, streaming kinds and field numbers. testdata/added.golden contains our
// additions to the contract; their field numbers must not change either.
func TestContract(t *testing.T) {
	have := describe(pb.File_hostagent_v1_hostagent_proto)
	contract, added := golden(t, "testdata/contract.golden"), golden(t, "testdata/added.golden")
	for _, line := range contract {
		if !slices.Contains(have, line) {
			t.Errorf("the contract has %q", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(contract, line) && !slices.Contains(added, line) {
			t.Errorf("neither the contract nor its additions have %q", line)
		}
	}
	for _, line := range added {
		if !slices.Contains(have, line) {
			t.Errorf("%q is gone", line)
		}
	}
}

func golden(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// describe returns one line for each detail of a proto file that clients rely on.
func describe(file protoreflect.FileDescriptor) (lines []string) {
	for s := range each(file.Services()) {
		for m := range each(s.Methods()) {
			lines = append(lines, fmt.Sprintf("rpc %s(%s) (%s)", m.FullName(), streaming(m.IsStreamingClient(), m.Input()), streaming(m.IsStreamingServer(), m.Output())))
		}
	}
	for m := range each(file.Messages()) {
		lines = append(lines, "message "+string(m.FullName()))
		for f := range each(m.Fields()) {
			kind := f.Kind().String()
			switch {
			case f.IsMap():
				kind = fmt.Sprintf("map<%s,%s>", f.MapKey().Kind(), f.MapValue().Kind())
			case f.Message() != nil:
				kind = string(f.Message().FullName())
			}
			line := fmt.Sprintf("field %s = %d %s %s", f.FullName(), f.Number(), f.Cardinality(), kind)
			if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
				line += " in " + string(o.Name())
			}
			if f.HasOptionalKeyword() {
				line += " explicit"
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

func streaming(is bool, m protoreflect.MessageDescriptor) string {
	if is {
		return "stream " + string(m.FullName())
	}
	return string(m.FullName())
}

// each iterates over the descriptors in a list.
func each[D any](list interface {
	Len() int
	Get(int) D
}) func(func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}
