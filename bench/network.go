package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// A machine reaches no address of its host. So the world that it is measured with is a network namespace, and so is the host, which has a cable to the world.
const (
	worldPort    = "7"
	worldAddress = "45.45.45.45" // a public one
	hostAddress  = "45.45.45.44"
	prefix       = "/31"
)

var world = net.JoinHostPort(worldAddress, worldPort)

// network measures the network of machines against QEMU's own user network (slirp), in a process that has a network of its own.
func (b *bench) network() error {
	if b.apart {
		return b.networks()
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "the network is not measured: only root makes network namespaces")
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "network.json")
	again := exec.CommandContext(b.ctx, self, "-apart", "-only", "network", "-n", strconv.Itoa(b.n), "-json", file)
	again.Stderr = os.Stderr
	again.Cancel = func() error { return again.Process.Signal(syscall.SIGTERM) }
	runtime.LockOSThread() // with which the process ends
	defer runtime.UnlockOSThread()
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if err := again.Run(); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var figures []Figure
	err = json.Unmarshal(text, &figures)
	b.figures = append(b.figures, figures...)
	return err
}

// world starts a server in a namespace of its own, with a cable to this one. Both are gone with it.
func (b *bench) world() (end func(), err error) {
	server := exec.Command(b.program("traffic"), "serve", ":"+worldPort)
	server.Stderr = os.Stderr
	runtime.LockOSThread() // with which the server ends
	server.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return nil, err
	}
	end = func() {
		server.Process.Kill()
		server.Wait()
		runtime.UnlockOSThread()
	}
	pid := strconv.Itoa(server.Process.Pid)
	inWorld := []string{"nsenter", "--net=/proc/" + pid + "/ns/net"}
	for _, command := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "host", "type", "veth", "peer", "name", "world", "netns", pid},
		{"ip", "address", "add", hostAddress + prefix, "dev", "host"},
		{"ip", "link", "set", "host", "up"},
		append(inWorld, "ip", "address", "add", worldAddress+prefix, "dev", "world"),
		append(inWorld, "ip", "link", "set", "world", "up"),
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			end()
			return nil, fmt.Errorf("%q: %w: %s", command, err, out)
		}
	}
	if err := awaitPort(world); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// awaitPort waits until a server answers.
func awaitPort(address string) error {
	var err error
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if err = request(address); err == nil {
			return nil
		}
	}
	return errors.Join(errors.New("nobody serves "+address), err)
}

// request makes a connection to a server, and has it send back one byte.
func request(address string) error {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("ex")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}
