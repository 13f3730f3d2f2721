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

// Key encrypts values for storage with AES-256-GCM. The encryption authenticates the owner and the
// name, so one sealed value can't be used in place of another.
type Key struct {
	cipher cipher.AEAD
}

// keyFile is the name of the key file.
const keyFile = "secrets.key"

const keySize = 32

// OpenKey returns the key that is stored in a folder. The first call creates the key: 32 random
// bytes in a file with mode 0600. OpenKey refuses a file that other users can read, because all
// values that were sealed with its key might be disclosed.
func OpenKey(folder string) (*Key, error) {
	path := filepath.Join(folder, keyFile)
	raw, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(folder, path); err == nil {
			raw, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fault.Wrap(err, "open the secrets key", path)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fault.Wrap(err, "open the secrets key", path)
	}
	c, err := cipher.NewGCMWithRandomNonce(block)
	return &Key{c}, fault.Wrap(err, "open the secrets key", path)
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
		return nil, fault.Newf(fault.Corrupt, "it is not a key: the data that it encrypted is lost").WithHint("mv %s %s.old", path, path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fault.Newf(fault.Permission, "others can read it").WithHint("chmod 600 %s", path)
	}
	raw := make([]byte, keySize)
	_, err = f.Read(raw)
	return raw, err
}

// makeKey creates the key file atomically. If another process has created the file first, makeKey
// leaves that file unchanged.
func makeKey(folder, path string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".key-*") // mode 0600
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

// Seal encrypts the value of an owner's secret.
func (k *Key) Seal(owner string, s Secret) []byte {
	return k.cipher.Seal(nil, nil, []byte(s.Value.Reveal()), bound(owner, s))
}

// Open decrypts the result of Seal. The owner, the name and the source must be the same as in the
// call of Seal. If they differ, Open returns a Corrupt error.
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
