package serve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/web"
)

// pagePolicy is the Content-Security-Policy of the page. It permits no inline script or style, no
// request to another server, and no text that becomes HTML or code.
const pagePolicy = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageFile is a built file of the page.
type pageFile struct {
	kind, etag string
	content    []byte
	compressed func() []byte // the content compressed with gzip; nil if that is not shorter
}

// pageFiles returns the files of the page by path. The first request for a file compresses it.
func pageFiles(from fs.FS) map[string]pageFile {
	all := map[string]pageFile{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f := pageFile{kind: kindOf(name), etag: `"` + hex.EncodeToString(sum[:12]) + `"`, content: content}
		f.compressed = sync.OnceValue(func() []byte { return compress(name, content) })
		all["/"+name] = f
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return all
}

// kindOf returns the Content-Type of a file. It does not depend on the host's own table of types.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	}
	return "application/octet-stream"
}

func compress(name string, content []byte) []byte {
	if path.Ext(name) == ".woff2" {
		return nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	w.Write(content)
	w.Close()
	if b.Len() >= len(content) {
		return nil
	}
	return b.Bytes()
}

// reserved lists the first path segments of URLs that never show the page.
var reserved = []string{"v1", "docs", "mcp", "health", "openapi.json", "openapi.yaml", "metrics", "preview", "schemas", ".well-known"}

// bindPage serves the page at all paths that no operation uses. The script of the page interprets
// the path.
func (s *Server) bindPage() {
	files := pageFiles(web.Files())
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		name := path.Clean(r.URL.Path)
		first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		f, ok := files[name]
		if !ok && first != "assets" && !slices.Contains(reserved, first) && acceptsHTML(r) {
			f, ok = files["/index.html"]
		}
		if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeError(w, newError(fault.New(fault.NotFound, "find", fault.Printable(r.Method+" "+r.URL.Path), "the API has no such operation").WithHint("see /openapi.json")))
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.etag)
		h.Set("Vary", "Accept-Encoding")
		h.Set("Cache-Control", "no-cache")
		if first == "assets" { // their names change with their content
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		content := f.content
		if acceptsGzip(r) {
			if short := f.compressed(); short != nil {
				h.Set("Content-Encoding", "gzip")
				h.Set("ETag", strings.TrimSuffix(f.etag, `"`)+`-gzip"`)
				content = short
			}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

// acceptsHTML reports whether the client of a request accepts HTML. Browsers do so when they open a
// page.
func acceptsHTML(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "text/html" {
			return true
		}
	}
	return false
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if strings.EqualFold(coding, "gzip") {
			return strings.TrimRight(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}
