package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Key seals values for the disk, with AES-256 in GCM. What it seals is bound to an owner and a name: nothing else can be opened in their place.
type Key struct {
	cipher cipher.AEAD
}

// keyFile is where the key is in its folder.
const keyFile = "secrets.key"

const keySize = 32

// OpenKey gives the key of a folder, which is made with the first use. It is 32 random bytes in a file that nobody but the user can read. A file that others can
// read is refused, with a hint: what it sealed may be known.
func OpenKey(folder string) (*Key, error) {
	path := filepath.Join(folder, keyFile)
	raw, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(folder, path); err == nil {
			raw, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fault.Wrap(err, "open the key of secrets", path)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fault.Wrap(err, "open the key of secrets", path)
	}
	c, err := cipher.NewGCMWithRandomNonce(block)
	return &Key{c}, fault.Wrap(err, "open the key of secrets", path)
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() != keySize:
		return nil, fault.Newf(fault.Corrupt, "it is not a key: what it sealed is lost").WithHint("mv %s %s.old", path, path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fault.Newf(fault.Permission, "others can read it").WithHint("chmod 600 %s", path)
	}
	raw := make([]byte, keySize)
	_, err = f.Read(raw)
	return raw, err
}

// makeKey makes a key whole or not at all. Where another process is first, theirs is the key.
func makeKey(folder, path string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	raw := make([]byte, keySize)
	rand.Read(raw)
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Sync(folder)
}

// Seal gives what may be written of an owner's secret.
func (k *Key) Seal(owner string, s Secret) []byte {
	return k.cipher.Seal(nil, nil, []byte(s.Value.Reveal()), bound(owner, s))
}

// Open gives the value of what Seal gave for the same owner, name and source. Corrupt where it is not that.
func (k *Key) Open(owner string, s Secret, sealed []byte) (Secret, error) {
	text, err := k.cipher.Open(nil, nil, sealed, bound(owner, s))
	if err != nil {
		return s, fault.New(fault.Corrupt, "open secret", s.Name, "it was sealed with another key, or is damaged")
	}
	s.Value = New(string(text))
	return s, nil
}

func bound(owner string, s Secret) []byte {
	return []byte(owner + "\x00" + s.Name + "\x00" + string(s.Source))
}
