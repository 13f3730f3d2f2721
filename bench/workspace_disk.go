package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pyro-mcp/pyro"
)

// diskListed compares listing all files of a stopped workspace with debugfs. The program debugfs
// needs one command per folder.
func (w *workspaces) diskListed() error {
	seed, err := w.packed(crowd)
	if err != nil {
		return err
	}
	k := w.kinds[0] // QEMU, because its disks are images
	id, err := w.create(k, seed)
	if err != nil {
		return err
	}
	if _, err := w.sdk.StopWorkspace(w.ctx, id); err != nil {
		return err
	}
	image := filepath.Join(w.dir, "disk.ext4")
	if _, err := w.sdk.ExportWorkspaceDisk(w.ctx, pyro.ExportWorkspaceDiskRequest{WorkspaceID: id, OutputPath: image}); err != nil {
		return err
	}
	debugfs, err := w.debugfs(image)
	if err != nil {
		return err
	}
	all := crowd.folders * (1 + crowd.files)
	list, printed := []string{"disk", "list", "--recursive", id}, filepath.Join(w.dir, "list")
	r, err := w.times(min(w.n, 5), func() error {
		l, err := w.sdk.ListWorkspaceDisk(w.ctx, pyro.ListWorkspaceDiskRequest{WorkspaceID: id, Recursive: true})
		if err == nil && l.Count != all {
			err = fmt.Errorf("the list has %d files instead of %d", l.Count, all)
		}
		return err
	}, func() error { return toFile(w.pyro(list...), printed) }, func() error { return toFile(debugfs(), printed) })
	if err == nil {
		err = printedAll(printed, all)
	}
	if err != nil {
		return err
	}
	peak, err := w.peak(w.pyro(list...), printed)
	if err == nil {
		err = printedAll(printed, all)
	}
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure("ListWorkspaceDisk, Go API, 100,000 files; floor: debugfs", "ms", r[0]).times(r[0], r[2], 1),
		figure("pyro workspace disk list -r, 100,000 files, whole process; floor: debugfs", "ms", r[1]).times(r[1], r[2], 1),
		figure("its peak memory (RSS)", "MiB", []float64{peak}).atMost(64))
	return errors.Join(w.delete(id), os.Remove(seed), os.Remove(image))
}

// debugfs returns a function that returns a debugfs command. The command lists all folders of the
// crowd in an image.
func (w *workspaces) debugfs(image string) (func() *exec.Cmd, error) {
	var requests bytes.Buffer
	fmt.Fprintln(&requests, "ls -p /workspace")
	for i := range crowd.folders {
		fmt.Fprintln(&requests, "ls -p /workspace/"+crowd.folder(i))
	}
	path := filepath.Join(w.dir, "requests")
	return func() *exec.Cmd { return exec.Command("debugfs", "-f", path, image) }, os.WriteFile(path, requests.Bytes(), 0o600)
}

// toFile runs a program and redirects its output to a file.
func toFile(cmd *exec.Cmd, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd.Stdout = f
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return nil
}

// printedAll checks that a program has printed at least one line per file.
func printedAll(path string, files int) error {
	text, err := os.ReadFile(path)
	if lines := bytes.Count(text, []byte{'\n'}); err == nil && lines < files {
		err = fmt.Errorf("%d lines were printed for %d files", lines, files)
	}
	return err
}

// peak runs a program and returns the program's peak memory in MiB. A new process of this program
// starts it, because a child inherits the peak of its parent.
func (w *workspaces) peak(cmd *exec.Cmd, output string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	call := exec.Command(self, append([]string{"-peak", output}, cmd.Args...)...)
	call.Env = cmd.Env
	out, err := call.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return strconv.ParseFloat(string(out), 64)
}

// printPeak runs in that new process. It runs a program and prints the program's peak memory.
func printPeak(output string, argv []string) error {
	if len(argv) == 0 {
		return errors.New("-peak needs a program")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if err := toFile(cmd, output); err != nil {
		return err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the kernel does not tell what the program used")
	}
	_, err := fmt.Printf("%.1f", float64(usage.Maxrss)/1024)
	return err
}
