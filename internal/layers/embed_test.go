package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// streams lists types with methods that can bypass the Read or Write method of a type that embeds
// them. For example, io.Copy prefers ReadFrom and WriteTo, and io.WriteString prefers WriteString.
var streams = []string{
	"bytes.Buffer", "bytes.Reader", "bufio.ReadWriter", "bufio.Reader", "bufio.Writer",
	"net.TCPConn", "net.UnixConn", "os.File", "strings.Builder", "strings.Reader",
}

// TestNoBoundIsBypassed rejects types that embed a stream and declare Read or Write. Such a type
// could bypass limits and redaction in its own method, so the stream must be a named field.
func TestNoBoundIsBypassed(t *testing.T) {
	embeds, own := map[string]string{}, map[string]string{} // by folder and type
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			collect(d, filepath.Dir(path), embeds, own)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(embeds) == 0 || len(own) == 0 {
		t.Fatalf("%d types embed a stream, %d have a method: nothing was read", len(embeds), len(own))
	}
	for name, stream := range embeds {
		if method, ok := own[name]; ok {
			t.Errorf("%s embeds %s, and other embedded methods bypass its %s", name, stream, method)
		}
	}
}

// collect records which declared types embed streams, and which declare Read or Write methods.
func collect(d ast.Decl, folder string, embeds, own map[string]string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && (d.Name.Name == "Read" || d.Name.Name == "Write") {
			own[folder+"."+typeName(d.Recv.List[0].Type)] = d.Name.Name
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			structure, ok := named.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range structure.Fields.List {
				if name := typeName(f.Type); f.Names == nil && slices.Contains(streams, name) {
					embeds[folder+"."+named.Name.Name] = name
				}
			}
		}
	}
}

// typeName returns the name of a type. For a pointer type, it returns the name of the target type.
// For other types, it returns "".
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
