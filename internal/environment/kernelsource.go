package environment

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/environment/debian"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// kernelSource is a kernel outside of the store.
type kernelSource struct{ image, tree, origin string }

// findKernel returns Debian's kernel. If that is not available, it returns the host's newest
// kernel.
func (s *Store) findKernel(ctx context.Context, work *staging, report progress.Func) (kernelSource, error) {
	deb, err := s.kernelPackage(ctx, work.dir, report)
	if err == nil {
		report.Phase("unpacking the kernel", "guest kernel")
		return unpackKernel(ctx, deb, work.path("package"))
	}
	if ctx.Err() != nil {
		return kernelSource{}, ctx.Err()
	}
	images, _ := filepath.Glob("/boot/vmlinuz-*")
	slices.SortFunc(images, func(a, b string) int { return -compareVersions(a, b) })
	for _, image := range images {
		release := strings.TrimPrefix(image, "/boot/vmlinuz-")
		if _, err := os.Stat(filepath.Join("/lib/modules", release)); err != nil {
			continue
		}
		if readable, err := os.Open(image); err == nil {
			readable.Close()
			report.Phase("using the host's kernel, because Debian's is not available:"+err.Error(), release)
			return kernelSource{image, "/lib/modules", image}, nil
		}
	}
	return kernelSource{}, err
}

// maxKernelFiles limits the unpacked size of a kernel package, in bytes.
const maxKernelFiles = 2 << 30

// unpackKernel extracts the kernel image and the modules from a package.
func unpackKernel(ctx context.Context, deb, dir string) (kernelSource, error) {
	reader, writer := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := debian.Unpack(ctx, deb, writer)
		writer.CloseWithError(err)
		unpacked <- err
	}()
	image, err := unpackTo(tar.NewReader(io.LimitReader(reader, maxKernelFiles)), dir)
	if err == nil {
		_, err = io.Copy(io.Discard, reader)
	}
	reader.CloseWithError(err)
	if unpackErr := <-unpacked; unpackErr != nil && err == nil {
		err = unpackErr
	}
	if err == nil && image == "" {
		err = fault.New(fault.Unavailable, "unpack", filepath.Base(deb), "the package has no kernel")
	}
	return kernelSource{image, filepath.Join(dir, "lib/modules"), filepath.Base(deb)}, err
}

func unpackTo(archive *tar.Reader, dir string) (image string, err error) {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return image, nil
		} else if err != nil {
			return "", err
		}
		name := filepath.Clean("/" + header.Name)[1:]
		kernelImage := strings.HasPrefix(name, "boot/vmlinuz-")
		if header.Typeflag != tar.TypeReg || !kernelImage && !strings.HasPrefix(name, "lib/modules/") {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(file, archive)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", err
		}
		if kernelImage {
			image = path
		}
	}
}

// compareVersions compares names. It compares sequences of digits by their numeric value.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

func moduleFile(i int, name string) string { return fmt.Sprintf("module-%02d-%s.ko", i, name) }
