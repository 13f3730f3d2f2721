// Package guest holds the guest agent's program, cmd/pyro-guest, as it is put into every machine.
//
// `make build` builds it for the architecture and packs it into this package, so that pyro stays one file. A build without that step (go install, go test)
// looks for the program where PYRO_GUEST says, else beside the running executable.
package guest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pyro-mcp/pyro/internal/fault"
)

//go:embed files
var files embed.FS

// maxSize bounds the program: it is in every initramfs.
const maxSize = 32 << 20

// Program is the guest agent's executable.
type Program struct {
	packed string // name in files, gzip; or empty
	path   string // of a plain file, where it is not packed
	digest string
}

// Find finds the program. Where it is packed it reads nothing but its digest.
func Find() (*Program, error) {
	if path := os.Getenv("PYRO_GUEST"); path != "" {
		return fromFile(path)
	}
	name := "files/pyro-guest-" + runtime.GOARCH
	if digest, err := files.ReadFile(name + ".sha256"); err == nil {
		return &Program{packed: name + ".gz", digest: "sha256:" + string(bytes.TrimSpace(digest))}, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return fromFile(filepath.Join(filepath.Dir(exe), "pyro-guest"))
}

func fromFile(path string) (*Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{
			Op: "find guest agent", Subject: path, Kind: fault.Unavailable, Err: errors.Unwrap(err),
			Hint: "make build, or set PYRO_GUEST to a pyro-guest program",
		}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxSize+1)); err != nil {
		return nil, fault.Wrap(err, "read guest agent", path)
	}
	return &Program{path: path, digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}, nil
}

// Digest is the SHA-256 of the program, "sha256:…".
func (p *Program) Digest() string { return p.digest }

// Bytes is the program itself. It is read or unpacked at each call.
func (p *Program) Bytes() ([]byte, error) {
	var r io.Reader
	if p.packed != "" {
		f, err := files.Open(p.packed)
		if err != nil {
			return nil, fault.Wrap(err, "unpack guest agent", p.packed)
		}
		defer f.Close()
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fault.Wrap(err, "unpack guest agent", p.packed)
		}
	} else {
		f, err := os.Open(p.path)
		if err != nil {
			return nil, fault.Wrap(err, "read guest agent", p.path)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fault.Wrap(err, "read guest agent", p.path)
	}
	if len(b) > maxSize {
		return nil, fault.New(fault.Exhausted, "read guest agent", p.path, "larger than %d bytes", maxSize)
	}
	return b, nil
}

// Install puts the program into folder, under a name made of its digest, unless it is there already, and gives its path.
func (p *Program) Install(folder string) (string, error) {
	path := filepath.Join(folder, "pyro-guest-"+p.digest[len("sha256:"):][:16])
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o555 {
		return path, nil
	}
	b, err := p.Bytes()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fault.Wrap(err, "install guest agent", folder)
	}
	tmp, err := os.CreateTemp(folder, ".pyro-guest-*")
	if err != nil {
		return "", fault.Wrap(err, "install guest agent", folder)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(0o555), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return path, fault.Wrap(err, "install guest agent", path)
}
