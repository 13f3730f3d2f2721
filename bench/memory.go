package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
)

// memory measures the memory of pyro and of an idle machine.
func (b *bench) memory() error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	pss, err := kilobytes(m.PID(), "smaps_rollup", "Pss")
	m.Close()
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("idle machine of 1024 MiB, PSS of QEMU", "MiB", []float64{pss}))

	var own []float64
	for range b.n {
		cmd := exec.Command("bin/pyro", "run", "-q", "--isolation", string(b.isolation), environmentName, "--", "sleep", "1")
		if err := cmd.Start(); err != nil {
			return err
		}
		time.Sleep(900 * time.Millisecond)
		rss, err := kilobytes(cmd.Process.Pid, "status", "VmRSS")
		if werr := cmd.Wait(); err == nil {
			err = werr
		}
		if err != nil {
			return err
		}
		own = append(own, rss)
	}
	b.figures = append(b.figures, figure("pyro run, its own memory (RSS)", "MiB", own).atMost(25))
	return b.bigFile()
}

// bigFile measures the memory of a process that transfers a large file. The process is another
// instance of this program.
func (b *bench) bigFile() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, "-child").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	peak, err := strconv.ParseFloat(string(out), 64)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("peak memory while 1 GiB goes in and out", "MiB", []float64{peak}).atMost(32))
	return nil
}

// moveBigFile runs in that process. It prints the peak memory of the process in MiB.
func moveBigFile(b *bench) error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Agent.WriteFile(b.ctx, client.FileSpec{Path: "/root/big", Size: bigFile}, io.LimitReader(zeroes{}, bigFile)); err != nil {
		return err
	}
	if _, err := m.Agent.ReadFile(b.ctx, "/root/big", 0, 0, io.Discard); err != nil {
		return err
	}
	peak, err := kilobytes(os.Getpid(), "status", "VmHWM")
	fmt.Printf("%.1f", peak)
	return err
}

// kilobytes reads a value in kB from a file of a process in /proc and returns the value in MiB.
func kilobytes(pid int, file, field string) (float64, error) {
	return kilobytesIn(fmt.Sprintf("/proc/%d/%s", pid, file), field)
}

func kilobytesIn(path, field string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^` + field + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%s has no %s", path, field)
	}
	kb, err := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024, err
}
