// Package guest provides the program of the guest agent, cmd/pyro-guest.
//
// `make build` compiles this program for the target architecture and embeds it in this package, so
// that pyro is a single file. Other builds, such as go install and go test, embed nothing. They use
// the file that PYRO_GUEST names, or the file pyro-guest in the folder of the executable.
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
	"syscall"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

//go:embed files
var files embed.FS

// maxSize is the maximum size of the program, in bytes. The size is limited because every initramfs
// contains the program.
const maxSize = 32 << 20

// Program is the guest agent's executable.
type Program struct {
	packed string // name of the gzip file in files; empty if the program is not embedded
	path   string // path of the program, if packed is empty
	digest string
}

// Find finds the program. If the program is embedded, Find reads only its digest.
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

// Digest returns the SHA-256 digest of the program as "sha256:…".
func (p *Program) Digest() string { return p.digest }

// Bytes returns the program. Each call reads or unpacks the program again.
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
		return nil, fault.New(fault.Exhausted, "read guest agent", p.path, "it is larger than %d bytes", maxSize)
	}
	return b, nil
}

// Install writes the program to a folder and returns the path. The file name contains the digest.
// If the file already exists, Install does not write it again.
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
	// A process that is forked while the file is open for writing inherits the descriptor. Until
	// its exec, the program could not be started.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err = durable.Replacement{Mode: 0o555, Temp: ".pyro-guest-*", Unflushed: true}.Write(path, b)
	return path, fault.Wrap(err, "install guest agent", path)
}
