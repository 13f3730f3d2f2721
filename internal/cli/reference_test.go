package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md and the golden file of the contract")

// golden compares a file with its expected content. With -update, it rewrites the file.
func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(want)); diff != "" {
		t.Errorf("%s is out of date; go test ./internal/cli -update rewrites it:\n%s", path, diff)
	}
}

// each calls f for every visible command. It calls f for a parent before its children.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	f(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, f)
	}
}

// wholeTree returns the root command, including the commands that cobra adds at run time.
func wholeTree() *cobra.Command {
	root := newRoot()
	root.InitDefaultCompletionCmd()
	each(root, func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
	})
	return root
}

func TestCLIReference(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# The command line\n\n<!-- Generated from the commands: go test ./internal/cli -update -->\n\n" +
		"Commands print results on standard output and everything else on standard error.\n[json.md](json.md) describes the output of `--json`.\n")
	each(wholeTree(), func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n", cmd.CommandPath())
		if cmd.HasParent() && cmd.Parent().Name() == "completion" {
			fmt.Fprintf(&b, "%s.\n", cmd.Short)
			return
		}
		long := cmd.Long
		if long == "" {
			long = cmd.Short + "."
		}
		if cmd.Runnable() {
			fmt.Fprintf(&b, "```\n%s\n```\n\n", cmd.UseLine())
		}
		fmt.Fprintf(&b, "%s\n", indentLists(strings.TrimSpace(long)))
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
		}
		if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(&b, "\n```\n%s```\n", flags)
		}
		if !cmd.HasParent() {
			codes := strings.TrimSpace(strings.NewReplacer("{{if not .HasParent}}", "", "{{end}}", "").Replace(exitCodes))
			fmt.Fprintf(&b, "\n```\n%s\n```\n", codes)
		}
	})
	golden(t, filepath.FromSlash("../../docs/cli.md"), b.Bytes())
}

// indentLists turns the lines of a help text that begin with two spaces into code blocks.
func indentLists(text string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(text) {
		if set := strings.HasPrefix(line, "  "); set != in {
			in = set
			b.WriteString("```\n")
		}
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	if in {
		b.WriteString("\n```")
	}
	return b.String()
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

// TestContract checks the public contract: the names of commands and flags, and the defaults of
// flags. Changes to the contract break clients.
func TestContract(t *testing.T) {
	var b bytes.Buffer
	each(wholeTree(), func(cmd *cobra.Command) {
		if cmd.Runnable() && (!cmd.HasParent() || cmd.Parent().Name() != "completion") {
			fmt.Fprintln(&b, cmd.CommandPath())
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				short := ""
				if f.Shorthand != "" {
					short = " -" + f.Shorthand
				}
				fmt.Fprintf(&b, "  --%s%s %s=%s\n", f.Name, short, f.Value.Type(), f.DefValue)
			})
		}
	})
	golden(t, filepath.FromSlash("testdata/contract.golden"), b.Bytes())
}
