package ext4image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// The compact image has exactly as many inodes as files, and resize2fs gives each new group as many as the first ones have: an image of few files would
// run out of inodes with its disk nearly empty. Padding files are added for the conversion and removed afterwards, so that there are at least
// inodesPerGroup in each group of 128 MiB, which is one for every 32 KiB.
const (
	inodesPerGroup = 4096
	groupSize      = 128 << 20
	maxPadding     = 32 << 10
	paddingDir     = ".pyro-padding"
)

func paddingFor(bytes int64, entries int) int {
	groups := (bytes+int64(entries)*blockSize)/groupSize + 1
	return int(max(0, min(maxPadding, groups*inodesPerGroup-int64(entries))))
}

func writePadding(out *tar.Writer, count int) error {
	if count == 0 {
		return nil
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: paddingDir, Mode: 0o700}); err != nil {
		return err
	}
	for i := range count {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%s/%d", paddingDir, i)}); err != nil {
			return err
		}
	}
	return nil
}

// tune makes the compact image a file system like any other: writable, with indexed directories, groups gathered by 16 as mke2fs does, a name, and grown to
// VirtualSize.
func tune(ctx context.Context, path string, padding int) error {
	var script strings.Builder
	fmt.Fprintf(&script, "set_current_time @%d\n", fixedTime) // or removed files keep the time of their removal
	for i := range padding {
		fmt.Fprintf(&script, "rm /%s/%d\n", paddingDir, i)
	}
	if padding > 0 {
		fmt.Fprintf(&script, "rmdir /%s\n", paddingDir)
	}
	script.WriteString("feature -read-only dir_index\n")
	script.WriteString("set_super_value log_groups_per_flex 4\n")
	// The seed spreads names over a directory's index; that nobody can foresee it matters only where names are hostile, which the owner's own root is not.
	script.WriteString("set_super_value def_hash_version half_md4\n")
	script.WriteString("set_super_value hash_seed 7079726f-0000-4000-8000-000000000001\n")
	script.WriteString("set_super_value uuid 7079726f-0000-4000-8000-000000000000\n")
	script.WriteString("set_super_value volume_name pyro-root\n")
	if err := run(ctx, script.String(), nil, "debugfs", "-w", "-f", "-", path); err != nil {
		return err
	}
	// A check must come before resizing; it also mends the library's one cosmetic fault, the padding of the inode bitmap.
	if err := check(ctx, path); err != nil {
		return err
	}
	if err := os.Truncate(path, VirtualSize); err != nil {
		return err
	}
	if err := run(ctx, "", nil, "resize2fs", path); err != nil {
		return err
	}
	if err := check(ctx, path, "-D"); err != nil {
		return err
	}
	return finish(ctx, path)
}

// Check verifies a file system without changing it; an error of kind Corrupt tells what is wrong.
func Check(ctx context.Context, path string) error {
	return run(ctx, "", nil, "e2fsck", "-fn", path)
}

func check(ctx context.Context, path string, args ...string) error {
	mended := []int{1}
	return run(ctx, "", mended, "e2fsck", append(args, "-fy", path)...)
}

var tools = []string{"debugfs", "e2fsck", "resize2fs"}

func checkTools() error {
	for _, tool := range tools {
		if _, err := locate(tool); err != nil {
			return err
		}
	}
	return nil
}

// locate also looks where Debian keeps these tools, which is not on the PATH of an ordinary user.
func locate(tool string) (string, error) {
	for _, name := range []string{tool, "/usr/sbin/" + tool, "/sbin/" + tool} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fault.New(fault.Unavailable, "find", tool, "not installed").WithHint("sudo apt-get install e2fsprogs")
}

func run(ctx context.Context, stdin string, fine []int, tool string, args ...string) error {
	program, err := locate(tool)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = nil, &output
	if tool != "debugfs" { // which repeats its commands
		cmd.Stdout = &output
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		for _, code := range fine {
			if exit.ExitCode() == code {
				err = nil
			}
		}
	}
	if err == nil && tool == "debugfs" {
		err = debugfsFailure(output.String())
	}
	if err == nil {
		return nil
	}
	said := lastLines(output.String())
	if strings.Contains(said, "No space left on device") {
		err = syscall.ENOSPC
	}
	return &fault.Error{Op: tool, Kind: kindOf(err), Err: fmt.Errorf("%w: %s", err, said)}
}

func kindOf(err error) fault.Kind {
	if k := fault.KindOf(err); k != fault.Internal {
		return k
	}
	return fault.Corrupt
}

// debugfsFailure finds errors in what debugfs says, since it exits with 0 whatever a command gave. Its first line is its version.
func debugfsFailure(said string) error {
	_, rest, _ := strings.Cut(said, "\n")
	if rest = strings.TrimSpace(rest); rest != "" {
		return errors.New("a command failed")
	}
	return nil
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
