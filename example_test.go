package pyro_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/pyro-mcp/pyro"
)

// These examples are only compiled, because they start real machines. The examples in
// example_workspace_test.go also run.

func Example() {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := p.RunInVM(context.Background(), pyro.RunInVMRequest{Environment: "debian:12", Command: "uname -sr"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(result.Stdout)
	fmt.Println("exit code", result.ExitCode, "isolation", result.Isolation)
}

func ExamplePyro_RunInVM_streams() {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := p.RunInVM(context.Background(), pyro.RunInVMRequest{
		Environment:    "alpine:3.20",
		Argv:           []string{"sort", "-r"},
		Stdin:          strings.NewReader("a\nb\nc\n"),
		Stdout:         os.Stdout, // receives the output while the command runs
		Stderr:         os.Stderr,
		TimeoutSeconds: 5,
	})
	if err != nil {
		log.Fatal(err)
	}
	if result.TimedOut {
		fmt.Println("it took too long")
	}
}

func ExampleKindOf() {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = p.RunInVM(context.Background(), pyro.RunInVMRequest{Environment: "debian:12", Argv: []string{"true"}})
	switch pyro.KindOf(err) {
	case "": // the command ran
	case pyro.Unavailable:
		fmt.Println("this host can't start a machine:", err)
		fmt.Println("what mends it:", pyro.HintOf(err))
	default:
		log.Fatal(err)
	}
}

func ExamplePyro_Doctor() {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		log.Fatal(err)
	}
	report, err := p.Doctor(context.Background(), pyro.DoctorRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, check := range report.Checks {
		fmt.Println(check.Status, check.Name, check.Detail, check.Hint)
	}
}
