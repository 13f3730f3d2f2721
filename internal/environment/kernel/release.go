// Package kernel reads Linux kernels. It finds the release of an image, and the modules for a
// machine in load order.
package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Boot header of a bzImage, see https://docs.kernel.org/arch/x86/boot.html.
const (
	headerMagicAt   = 0x202
	versionOffsetAt = 0x20e // offset of the release string minus 0x200
	headerEnd       = 0x210
	maxRelease      = 128
)

// maxBanner limits the search in an uncompressed image, in bytes. It is larger than any kernel.
const maxBanner = 128 << 20

// Release returns the release of a kernel image, such as "6.1.0-56-cloud-amd64". The header of a
// bzImage contains the release. In an uncompressed image the release is in the banner.
func Release(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	release, err := readRelease(file)
	if err != nil {
		return "", &fault.Error{Op: "read kernel", Subject: path, Kind: fault.Invalid, Err: err}
	}
	return release, nil
}

func readRelease(image io.ReaderAt) (string, error) {
	header := make([]byte, headerEnd)
	if n, _ := image.ReadAt(header, 0); n == headerEnd && string(header[headerMagicAt:headerMagicAt+4]) == "HdrS" {
		text := make([]byte, maxRelease)
		n, err := image.ReadAt(text, int64(binary.LittleEndian.Uint16(header[versionOffsetAt:]))+0x200)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return firstWord(text[:n])
	}
	banner := []byte("Linux version ")
	buf := make([]byte, 1<<20)
	for offset := int64(0); offset < maxBanner; offset += int64(len(buf) - len(banner) - maxRelease) {
		n, err := image.ReadAt(buf, offset)
		for rest := buf[:n]; ; {
			_, after, found := bytes.Cut(rest, banner)
			if !found {
				break
			}
			if release, err := firstWord(after[:min(len(after), maxRelease)]); err == nil && release[0] >= '0' && release[0] <= '9' {
				return release, nil
			}
			rest = after
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
	}
	return "", errors.New("not a Linux kernel image")
}

func firstWord(text []byte) (string, error) {
	word, _, found := bytes.Cut(text, []byte{' '})
	if !found {
		word, _, _ = bytes.Cut(text, []byte{0})
	}
	// Callers use the release as the name of a directory in /lib/modules.
	ok := len(word) > 0 && len(word) < maxRelease && word[0] != '.'
	for _, c := range word {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(".+-_~", c) >= 0)
	}
	if !ok {
		return "", errors.New("the image has no valid release")
	}
	return string(word), nil
}
