package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/agenthost"
	"github.com/pyro-mcp/pyro/internal/demo"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// described lists the sections of docs/json.md that have a table for a struct. The field below is
// empty for the first table of a section, and otherwise the line above the table.
var described = []struct {
	section, below string
	value          any
}{
	{"Errors", "", fault.Report{}},
	{"pyro run", "", pyro.RunResult{}},
	{"pyro workspace create", "", pyro.Workspace{}},
	{"pyro workspace create", "`network`:", pyro.NetworkInfo{}},
	{"pyro workspace list", "", pyro.WorkspaceSummary{}},
	{"pyro workspace delete", "", pyro.DeletedWorkspace{}},
	{"pyro workspace exec", "", pyro.WorkspaceExecResult{}},
	{"pyro workspace logs", "", pyro.WorkspaceLogs{}},
	{"pyro workspace logs", "`entries`:", pyro.CommandEntry{}},
	{"ReadCommand", "", pyro.CommandOutput{}},
	{"pyro workspace wait", "", pyro.WorkspaceCommand{}},
	{"pyro workspace ps", "", pyro.WorkspaceCommands{}},
	{"pyro workspace stats", "", pyro.WorkspacesStats{}},
	{"pyro workspace stats", "`workspaces`:", pyro.WorkspaceStats{}},
	{"pyro workspace stats", "`machine`:", pyro.MachineStats{}},
	{"pyro workspace summary", "", pyro.WorkspaceActivity{}},
	{"pyro workspace summary", "`commands.recent`, `outcome.last_command`:", pyro.RecentCommand{}},
	{"pyro workspace summary", "`edits.recent`:", pyro.RecentEdit{}},
	{"pyro workspace summary", "`services.recent`:", pyro.RecentService{}},
	{"pyro workspace summary", "`shells.recent`:", pyro.RecentShell{}},
	{"pyro workspace summary", "`snapshots.recent`:", pyro.RecentSnapshot{}},
	{"pyro workspace file list", "", pyro.WorkspaceFiles{}},
	{"pyro workspace file read", "", pyro.FileContent{}},
	{"pyro workspace file write", "", pyro.WrittenFile{}},
	{"pyro workspace sync push", "", pyro.WorkspaceSync{}},
	{"pyro workspace cp", "", pyro.WorkspaceCopy{}},
	{"pyro workspace export", "", pyro.WorkspaceExport{}},
	{"pyro workspace patch apply", "", pyro.AppliedPatch{}},
	{"pyro workspace diff", "", pyro.WorkspaceDiff{}},
	{"pyro workspace diff", "`summary`:", pyro.DiffSummary{}},
	{"pyro workspace diff", "`entries`:", pyro.ChangedFile{}},
	{"pyro workspace sync pull", "", pyro.WorkspacePull{}},
	{"pyro workspace sync pull", "`entries`:", pyro.PulledChange{}},
	{"pyro workspace snapshot create", "", pyro.WorkspaceSnapshot{}},
	{"pyro workspace snapshot create", "`snapshot`:", pyro.Snapshot{}},
	{"pyro workspace snapshot list", "", pyro.WorkspaceSnapshots{}},
	{"pyro workspace snapshot delete", "", pyro.DeletedSnapshot{}},
	{"pyro workspace fork", "", pyro.ForkedWorkspaces{}},
	{"pyro workspace shell open", "", pyro.Shell{}},
	{"pyro workspace shell list", "", pyro.WorkspaceShells{}},
	{"pyro workspace shell read", "", pyro.ShellOutput{}},
	{"pyro workspace shell write", "", pyro.ShellInput{}},
	{"pyro workspace shell signal", "", pyro.ShellSignal{}},
	{"pyro workspace shell close", "", pyro.ClosedShell{}},
	{"pyro workspace service start", "", pyro.Service{}},
	{"pyro workspace service start", "`restarts`:", pyro.ServiceRestarts{}},
	{"pyro workspace service list", "", pyro.WorkspaceServices{}},
	{"pyro workspace service logs", "", pyro.ServiceLogs{}},
	{"pyro workspace network log", "", pyro.NetworkLog{}},
	{"pyro workspace disk export", "", pyro.WorkspaceDiskExport{}},
	{"pyro env inspect", "", pyro.Environment{}},
	{"pyro env prune", "", pyro.PruneResult{}},
	{"pyro env push", "", pyro.PushedEnvironment{}},
	{"pyro env save", "", pyro.SavedEnvironment{}},
	{"pyro prepare", "", pyro.PrepareResult{}},
	{"pyro doctor", "", pyro.DoctorReport{}},
	{"pyro doctor", "`environment`:", pyro.Preparation{}},
	{"pyro demo", "", demo.Report{}},
	{"pyro demo", "`steps`:", demo.Step{}},
	{"pyro host network-settings", "`settings` is an array of objects:", pyro.HostNetworkSetting{}},
	{"pyro host doctor", "", agenthost.Report{}},
	{"pyro pty list", "", ptySession{}},
	{"Machines", "`CreateVM`, `StartVM`, `StopVM`, `StatusVM`:", pyro.VM{}},
	{"Machines", "`DeleteVM`:", pyro.DeletedVM{}},
	{"Machines", "`NetworkInfoVM`:", pyro.VMNetworkInfo{}},
	{"Machines", "`ReapExpired`:", pyro.ReapedVMs{}},
}

// TestJSONReference checks that docs/json.md describes the printed structs. It compares names,
// types, and which fields can be missing or null.
func TestJSONReference(t *testing.T) {
	sections := readReference(t)
	known := map[reflect.Type]bool{
		reflect.TypeFor[pyro.VMExecResult](): true, // consists of a vm_id and the fields of another struct
		reflect.TypeFor[pyro.LogsEnd]():      true, // is never printed as JSON, because --follow excludes --json
	}
	for _, d := range described {
		known[reflect.TypeOf(d.value)] = true
	}
	for _, d := range described {
		s := sections[d.section]
		if s == nil {
			t.Errorf("no section %q", d.section)
			continue
		}
		s.check(t, known, reflect.TypeOf(d.value), d.below)
	}
	for _, kind := range fault.Kinds() {
		if !strings.Contains(sections["Errors"].text, "| `"+string(kind)+"` |") {
			t.Errorf("kind %q is not described", kind)
		}
	}
	for m := range reflect.TypeFor[*pyro.Pyro]().Methods() {
		result := m.Type.Out(0)
		for result.Kind() == reflect.Pointer || result.Kind() == reflect.Slice {
			result = result.Elem()
		}
		if result.Kind() == reflect.Struct && !known[result] {
			t.Errorf("the result of %s, %s, is not described", m.Name, result)
		}
	}
}

func TestEveryCommandWithJSONIsDescribed(t *testing.T) {
	sections := readReference(t)
	commands := map[string]bool{}
	each(newRoot(), func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("json") == nil {
			return
		}
		commands[cmd.CommandPath()] = true
		if sections[cmd.CommandPath()] == nil {
			t.Errorf("%s --json is not described", cmd.CommandPath())
		}
	})
	for title := range sections {
		if strings.HasPrefix(title, "pyro ") && !commands[title] {
			t.Errorf("%s --json is documented, but does not exist", title)
		}
	}
}

// TestJSONExamples decodes the examples and encodes them again. The result must have the same
// fields.
func TestJSONExamples(t *testing.T) {
	values := map[string]any{
		"Errors":              &map[string]fault.Report{},
		"pyro workspace list": &operations.Workspaces{},
	}
	for _, d := range described {
		if values[d.section] == nil {
			values[d.section] = reflect.New(reflect.TypeOf(d.value)).Interface()
		}
	}
	sections := readReference(t)
	for title, value := range values {
		if sections[title] == nil {
			continue // TestJSONReference reports this
		}
		example := ""
		if _, rest, ok := strings.Cut(sections[title].text, "\n```json\n"); ok {
			example, _, _ = strings.Cut(rest, "```\n")
		}
		if example == "" {
			if strings.HasPrefix(title, "pyro workspace ") {
				t.Errorf("%s: the example is missing", title)
			}
			continue
		}
		d := json.NewDecoder(strings.NewReader(example))
		d.DisallowUnknownFields()
		if err := d.Decode(value); err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		var printed bytes.Buffer
		if err := printJSON(&printed, value); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(example, printed.String()); diff != "" {
			t.Errorf("%s: the example differs from the output:\n%s", title, diff)
		}
	}
}

// section is a section of docs/json.md. The key of a table is the line above it, or "" for the
// first table.
type section struct {
	title, text string
	tables      map[string][]row
}

// row is a table row. It describes one or more fields.
type row struct {
	names         []string
	kind, meaning string
}

// readReference returns the sections of docs/json.md by command. A section belongs to the commands
// in its title and in its paragraph "Also printed by".
func readReference(t *testing.T) map[string]*section {
	t.Helper()
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]*section{}
	for part := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		s := &section{title, body, readTables(body)}
		for name := range strings.SplitSeq(title, ", ") {
			sections[name] = s
		}
		if also, ok := strings.CutPrefix(body, "\nAlso printed by "); ok {
			also, _, _ = strings.Cut(also, "\n\n")
			for _, name := range commandName.FindAllStringSubmatch(also, -1) {
				sections[name[1]] = s
			}
		}
	}
	return sections
}

var commandName = regexp.MustCompile("`(pyro [a-z ]+)`")

var fieldName = regexp.MustCompile("`([a-z0-9_]+)`")

func readTables(text string) map[string][]row {
	tables := map[string][]row{}
	above, columns := "", 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(strings.Trim(line, "|"), " |")
		switch {
		case strings.HasPrefix(line, "`") && strings.HasSuffix(line, ":"):
			above = line
		case strings.HasPrefix(line, "| field |"):
			columns = len(cells)
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns > 1 && !strings.HasPrefix(line, "| ---"):
			r := row{meaning: strings.TrimSpace(cells[columns-1])}
			if columns == 3 {
				r.kind = strings.TrimSpace(cells[1])
			}
			for _, name := range fieldName.FindAllStringSubmatch(cells[0], -1) {
				r.names = append(r.names, name[1])
			}
			tables[above] = append(tables[above], r)
		}
	}
	return tables
}

// check compares a table with a struct. A nested struct must have a table below a line with the
// name of its field. Otherwise its row or another section must describe it.
func (s *section) check(t *testing.T, known map[reflect.Type]bool, described reflect.Type, below string) {
	t.Helper()
	rows := s.tables[below]
	fields := jsonFields(described)
	for _, r := range rows {
		for _, name := range r.names {
			if !slices.ContainsFunc(fields, func(f jsonField) bool { return f.name == name }) {
				t.Errorf("%s %s: %q is described, and %s has no such field", s.title, below, name, described)
			}
		}
	}
	for _, f := range fields {
		i := slices.IndexFunc(rows, func(r row) bool { return slices.Contains(r.names, f.name) })
		if i < 0 {
			t.Errorf("%s %s: field %q is not described", s.title, below, f.name)
			continue
		}
		r := rows[i]
		if strings.HasPrefix(r.meaning, "*optional*") != f.optional {
			t.Errorf("%s %s: field %q: optional is %v, but documented otherwise", s.title, below, f.name, f.optional)
		}
		if kind := f.kind(); r.kind != "" && r.kind != kind && r.kind+" of objects" != kind {
			t.Errorf("%s %s: field %q has type %q, documented as %q", s.title, below, f.name, kind, r.kind)
		}
		inner := f.inner()
		if inner == nil {
			continue
		}
		switch own := "`" + f.name + "`:"; {
		case s.tables[own] != nil && own != below:
			s.check(t, known, inner, own)
		case !known[inner]:
			for _, part := range jsonFields(inner) {
				if !strings.Contains(r.meaning, "`"+part.name+"`") || strings.Contains(r.meaning, "`"+part.name+"` *optional*") != part.optional {
					t.Errorf("%s %s: field %q: its %q, optional %v, is not described so", s.title, below, f.name, part.name, part.optional)
				}
			}
		}
	}
}

type jsonField struct {
	name     string
	optional bool
	of       reflect.Type
}

// jsonFields returns the JSON fields of a struct, including the fields of embedded structs.
func jsonFields(t reflect.Type) (fields []jsonField) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fields = append(fields, jsonFields(f.Type)...)
		case name != "" && name != "-":
			fields = append(fields, jsonField{name, strings.Contains(options, "omit"), f.Type})
		}
	}
	return fields
}

// kind returns the type of the field in the words of the document.
func (f jsonField) kind() string {
	switch f.of.Kind() {
	case reflect.Pointer:
		return jsonField{of: f.of.Elem()}.kind() + " or null"
	case reflect.Slice:
		return "array of " + jsonField{of: f.of.Elem()}.kind() + "s"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "number"
	}
	if f.of == reflect.TypeFor[time.Time]() {
		return "string"
	}
	return "object"
}

// inner returns the struct type of the field, of its elements or of its target. It returns nil if
// there is no struct.
func (f jsonField) inner() reflect.Type {
	t := f.of
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	return t
}

func TestJSONIsSortedAndWhole(t *testing.T) {
	var b bytes.Buffer
	value := struct {
		Z string  `json:"z"`
		A int64   `json:"a"`
		M float64 `json:"m"`
	}{"<&>", 1 << 62, 0.125}
	if err := printJSON(&b, value); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": 4611686018427387904,\n  \"m\": 0.125,\n  \"z\": \"<&>\"\n}\n"; b.String() != want {
		t.Errorf("got %s", &b)
	}
}
