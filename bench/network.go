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

// A machine can't reach the addresses of its host. So the measurements use two network namespaces
// that are connected by a virtual cable. One contains the host, the other one contains the remote
// server.
const (
	worldPort    = "7"
	worldAddress = "45.45.45.45" // a public address
	hostAddress  = "45.45.45.44"
	prefix       = "/31"
)

var world = net.JoinHostPort(worldAddress, worldPort)

// network compares the networks of machines with QEMU's user network (slirp). The measurements run
// in another process that has its own network namespace.
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
	runtime.LockOSThread() // never unlocked, so the thread ends only with the process
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

// world starts a server in a new network namespace, and a cable from that namespace to this one.
// When the server ends, the namespace and the cable are removed.
func (b *bench) world() (end func(), err error) {
	server := exec.Command(b.program("traffic"), "serve", ":"+worldPort)
	server.Stderr = os.Stderr
	runtime.LockOSThread() // not unlocked before the server has ended, because the end of the thread would kill the server
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

// awaitPort waits until the server at an address answers.
func awaitPort(address string) error {
	var err error
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if err = request(address); err == nil {
			return nil
		}
	}
	return errors.Join(errors.New("no server at "+address), err)
}

// request connects to a server, sends two bytes and receives one byte.
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
