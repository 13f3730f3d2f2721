package agenthost

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

var small = Server{Name: "pyro", Command: "/bin/pyro", Args: []string{"mcp", "serve"}}

// TestSetServer checks that setServer changes no byte outside the server.
func TestSetServer(t *testing.T) {
	const member = `"pyro": {
      "type": "local",
      "command": [
        "/bin/pyro",
        "mcp",
        "serve"
      ],
      "enabled": true
    }`
	const command = `["/bin/pyro","mcp","serve"]`
	for _, c := range []struct{ name, was, want string }{
		{"nothing", "", string(opencodeDocument(small))},
		{"blanks", " \n", string(opencodeDocument(small))},
		{"empty", "{}", "{\n  \"mcp\": {\n    " + member + "\n  }\n}"},
		{"others", "{\n  \"$schema\": \"x\",\n  \"n\": 1.50e+10\n}\n", "{\n  \"$schema\": \"x\",\n  \"n\": 1.50e+10,\n  \"mcp\": {\n    " + member + "\n  }\n}\n"},
		{"an empty table", "{\n  \"mcp\": {}\n}", "{\n  \"mcp\": {\n    " + member + "\n  }\n}"},
		{"another server", "{\n  \"mcp\": {\n    \"a\": { \"x\":1 }\n  },\n  \"z\": [ ]\n}", "{\n  \"mcp\": {\n    \"a\": { \"x\":1 },\n    " + member + "\n  },\n  \"z\": [ ]\n}"},
		{"a wrong one", `{"mcp":{"pyro":{"timeout": 7, "command":["old"] , "enabled":false,"type" : "local"}, "a":{}}}`,
			`{"mcp":{"pyro":{"timeout": 7, "command":` + command + ` , "enabled":true,"type" : "local"}, "a":{}}}`},
		{"with an unwanted environment", `{"mcp":{"pyro":{"environment": {"A":"b"},"type":"local","enabled":true,"command":1}}}`,
			`{"mcp":{"pyro":{"environment": {},"type":"local","enabled":true,"command":` + command + `}}}`},
		{"null", `{"mcp":{"pyro":null}}`, `{"mcp":{"pyro":` + strings.TrimPrefix(member, `"pyro": `) + `}}`},
	} {
		got, err := setServer([]byte(c.was), small)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got\n%s\n%v, want\n%s", c.name, got, err, c.want)
		}
	}
	for _, c := range []string{`[]`, `{"mcp": 7}`, `{"mcp": {}, "mcp": {}}`, `{"mcp": {"pyro": {}, "pyro": {}}}`, `{`, `{} {}`, "\ufeff{}", `{/**/}`} {
		if got, err := setServer([]byte(c), small); err == nil {
			t.Errorf("%s became %s", c, got)
		}
	}
}

// FuzzSetServer checks that changing the text has the same effect as changing the decoded value.
func FuzzSetServer(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, "{\n\t\"mcp\": {\n\t\t\"b\": []\n\t}\n}", `{"mcp":{"pyro":{"command":[]}}}`, `{"mcp":{"pyro":{"environment":{},"x":"é😀"}}}`,
		` {"a":"\"}{","mcp":{"pyro":-1.5e3}} `,
	} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, withEnv bool) {
		s := small
		if withEnv {
			s.Env = map[string]string{"A": "b"}
		}
		got, err := setServer([]byte(text), s)
		if err != nil {
			return
		}
		var was, now map[string]any
		if json.Unmarshal([]byte(text), &was) != nil {
			return // the text contains only spaces
		}
		if err := json.Unmarshal(got, &now); err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		server := now["mcp"].(map[string]any)["pyro"].(map[string]any)
		if e, err := opencodeEntry(server); err != nil || !e.right(s) {
			t.Errorf("%q became %q", text, got)
		}
		for _, table := range []map[string]any{was, now} {
			mcp, _ := table["mcp"].(map[string]any)
			if one, _ := mcp["pyro"].(map[string]any); one != nil {
				for _, name := range []string{"type", "command", "enabled", "environment"} {
					delete(one, name)
				}
			}
			if one, ok := mcp["pyro"].(map[string]any); !ok || len(one) == 0 {
				delete(mcp, "pyro")
			}
			if len(mcp) == 0 {
				delete(table, "mcp")
			}
		}
		if !reflect.DeepEqual(was, now) {
			t.Errorf("%q became %q", text, got)
		}
		second, err := setServer(got, s)
		third, again := setServer(second, s)
		if err != nil || again != nil || string(third) != string(second) {
			t.Errorf("%q became %q, %v, and then %q, %v", text, second, err, third, again)
		}
	})
}

func TestReplaceFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "new", "file")
	if kept, err := replaceFile(path, nil, []byte("one")); err != nil || kept != "" {
		t.Fatal(kept, err)
	}
	wantFile(t, path, "one", 0o600)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	kept, err := replaceFile(path, []byte("one"), []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "two", 0o640)
	wantFile(t, kept, "one", 0o640)
	again, err := replaceFile(path, []byte("two"), []byte("three"))
	if err != nil || again == kept {
		t.Fatal(again, err)
	}
	wantFile(t, kept, "one", 0o640)
	wantFile(t, again, "two", 0o640)

	// A file that has changed and a file that is not regular must not be replaced.
	if _, err := replaceFile(path, []byte("two"), []byte("x")); fault.KindOf(err) != fault.Precondition {
		t.Errorf("changed meanwhile: %v", err)
	}
	if _, err := replaceFile(path, nil, []byte("x")); fault.KindOf(err) != fault.Precondition {
		t.Errorf("made meanwhile: %v", err)
	}
	wantFile(t, path, "three", 0o640)
	link := filepath.Join(folder, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := replaceFile(link, []byte("three"), []byte("x")); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a link: %v", err)
	}
	wantFile(t, path, "three", 0o640)
	if left, _ := filepath.Glob(filepath.Join(folder, "new", ".pyro-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func wantFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(got) != text || info.Mode().Perm() != mode {
		t.Errorf("%s: %q, %v, %v", path, got, info.Mode(), err)
	}
}

// TestReadFile checks that reading a special file fails without blocking, and that the file size is
// limited.
func TestReadFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]fault.Kind{pipe: fault.Precondition, "/dev/zero": fault.Precondition, t.TempDir(): fault.Precondition} {
		if _, err := readFile(path); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", path, err)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	write(t, large, "")
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(large); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a large one: %v", err)
	}
	if text, err := readFile(large + "-gone"); text != nil || err != nil {
		t.Errorf("missing file: got %q, %v, want nil", text, err)
	}
}
