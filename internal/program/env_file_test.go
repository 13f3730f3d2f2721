package program

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// ofHost is the environment of this process in these tests.
func ofHost(name string) (string, bool) {
	value, ok := map[string]string{"HOME": "/home/ann", "EMPTY": ""}[name]
	return value, ok
}

func TestParseEnvFile(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                      {},
		"A=b":                                   {"A": "b"},
		"\ufeffA=b\r\n# c\n\n \tB= c =d \r\n#=": {"A": "b", "B": " c =d "},
		"A=\"b\"\nB='c' # no comment\nC=":       {"A": "\"b\"", "B": "'c' # no comment", "C": ""},
		"A=1\nA=2\n":                            {"A": "2"},
		"HOME\nEMPTY\nMISSING\n":                {"HOME": "/home/ann", "EMPTY": ""},
		"a.b-c=größer":                          {"a.b-c": "größer"},
	} {
		if got, err := parseEnvFile(text, ofHost); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"A=b\n\n=c":        "line 3 has no name before =",
		"export A=b":       "line 1 has white space in its name",
		"# x\nA =b":        "line 2 has white space in its name",
		"A b\n":            "line 1 has white space in its name",
		"A=\x00":           "line 1 has a NUL byte",
		"A=b\nB=\xff\nC=d": "line 2 is not UTF-8",
		"A\u2003=b":        "line 1 has white space in its name",
	} {
		if _, err := parseEnvFile(text, ofHost); fault.KindOf(err) != fault.Invalid || err.Error() != want || fault.HintOf(err) == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadEnvFile(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	t.Setenv("OF_THIS_TEST", "yes")
	write("OF_THIS_TEST\n")
	if env, err := ReadEnvFile(path); err != nil || env["OF_THIS_TEST"] != "yes" {
		t.Errorf("%q, %v", env, err)
	}
	write("A=" + strings.Repeat("x", MaxEnvFile-2))
	if env, err := ReadEnvFile(path); err != nil || len(env["A"]) != MaxEnvFile-2 {
		t.Errorf("%d bytes, %v", len(env["A"]), err)
	}
	write("A=" + strings.Repeat("x", MaxEnvFile-1))
	if _, err := ReadEnvFile(path); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "more than 1024 KiB") {
		t.Errorf("too large: %v", err)
	}
	if _, err := ReadEnvFile(t.TempDir()); err == nil {
		t.Error("a folder is no file")
	}
}

// FuzzEnvFile checks that all variables of a file can be passed to a program.
func FuzzEnvFile(f *testing.F) {
	for _, text := range []string{"A=b\nB\n# c\n", "\ufeff A=\r\n=", "HOME\r\nA b=c", "A=\x00\nB=\xff", "\n\n\t#\nX==\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env, err := parseEnvFile(text, ofHost)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Error(err)
			}
			return
		}
		if err := CheckEnv(env, 2*len(text)+100); err != nil {
			t.Error(err)
		}
		for _, variable := range Environ(env) {
			name, value, _ := strings.Cut(variable, "=")
			if got, err := parseEnvFile(variable+"\r\n", ofHost); err != nil || env[name] != value || !strings.HasPrefix(name, "#") && got[name] != value {
				t.Errorf("%q: %q, %v", variable, got, err)
			}
		}
	})
}
