package hostnet

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"path"
	"strings"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Paths of the files in a machine.
const (
	bundlePath = "/etc/ssl/certs/ca-certificates.crt"
	anchorPath = "/usr/local/share/ca-certificates/pyro-host.crt" // update-ca-certificates adds it to a new bundle
	javaPath   = "/etc/ssl/certs/pyro-host.p12"
	npmPath    = "/etc/npmrc"
	aptPath    = "/etc/apt/apt.conf.d/80pyro-host"

	// javaPassword is the password of Java's own trust store. It protects nothing.
	javaPassword = "changeit"
)

// Files is the file system of a machine.
type Files interface {
	// ReadFile copies a file to a writer, from offset, at most limit bytes. NotFound: there is no
	// such file.
	ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error)
	// WriteFile replaces a file and makes its missing parents.
	WriteFile(ctx context.Context, path, content string) error
	// List returns the names in a folder. NotFound: there is no such folder.
	List(ctx context.Context, path string) ([]string, error)
}

// Install writes the files of the settings to a machine. It is idempotent. The function bundle
// returns the host's CA bundle, for machines that have none.
func Install(ctx context.Context, m Files, g *store.HostNetwork, bundle func() string) error {
	if err := installTrust(ctx, m, g, bundle); err != nil {
		return err
	}
	for path, content := range map[string]string{npmPath: g.NPM, aptPath: g.APT} {
		if content == "" {
			continue
		}
		if err := m.WriteFile(ctx, path, content); err != nil {
			return err
		}
	}
	return installMirrors(ctx, m, g)
}

// installTrust adds the CA certificates to the bundles of the machine.
func installTrust(ctx context.Context, m Files, g *store.HostNetwork, bundle func() string) error {
	if g.Certificates == "" {
		return nil
	}
	own, err := read(ctx, m, bundlePath)
	if err != nil {
		return err
	}
	if strings.Contains(own, g.Certificates) {
		return nil
	}
	if own == "" {
		own = bundle()
	}
	if own != "" && !strings.HasSuffix(own, "\n") {
		own += "\n"
	}
	all := own + g.Certificates
	java, err := javaStore(all)
	if err != nil {
		return err
	}
	files := []struct{ path, content string }{{anchorPath, g.Certificates}, {javaPath, java}, {bundlePath, all}}
	for _, other := range bundles[1:] {
		content, err := read(ctx, m, other)
		if err != nil {
			return err
		}
		if content != "" && !strings.Contains(content, g.Certificates) {
			files = append(files, struct{ path, content string }{other, content + "\n" + g.Certificates})
		}
	}
	for _, f := range files {
		if err := m.WriteFile(ctx, f.path, f.content); err != nil {
			return err
		}
	}
	return nil
}

// javaStore returns the certificates of a bundle in Java's format.
func javaStore(bundle string) (string, error) {
	var all []*x509.Certificate
	for _, c := range parse(bundle) {
		all = append(all, c.ca)
	}
	store, err := pkcs12.Modern.EncodeTrustStore(all, javaPassword)
	if err != nil {
		return "", fmt.Errorf("make the trust store for Java: %w", err)
	}
	return string(store), nil
}

// installMirrors replaces the default servers in the machine's apt sources.
func installMirrors(ctx context.Context, m Files, g *store.HostNetwork) error {
	if len(g.Mirrors) == 0 {
		return nil
	}
	const folder = "/etc/apt/sources.list.d"
	names, err := m.List(ctx, folder)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	files := []string{"/etc/apt/sources.list"}
	for _, name := range names {
		if ext := path.Ext(name); ext == ".list" || ext == ".sources" {
			files = append(files, path.Join(folder, name))
		}
	}
	for _, file := range files {
		text, err := read(ctx, m, file)
		if err != nil {
			return err
		}
		if changed := rewrite(text, g.Mirrors); changed != text {
			if err := m.WriteFile(ctx, file, changed); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxBundle is the maximum size of a file that read returns, in bytes.
const maxBundle = 8 << 20

// read returns the content of a file, or nothing if it does not exist.
func read(ctx context.Context, m Files, path string) (string, error) {
	var b strings.Builder
	_, err := m.ReadFile(ctx, path, 0, maxBundle, &b)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	return b.String(), err
}
