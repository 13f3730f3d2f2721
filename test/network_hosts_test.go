//go:build machine

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// hosts simulates two computers with two network namespaces. The first one is the host of pyro. The
// second one stands for all other computers and has every address. The first one routes everything
// to the second one. So all traffic that pyro does not stop arrives at the second one.
type hosts struct {
	t           *testing.T
	host, world *namespace
	ours        *watcher // watches the loopback interface of the host
	theirs      *watcher // watches the other end of the cable
	marks       int
}

// namespace is a network and mount namespace. An idle process keeps it alive.
type namespace struct {
	t  *testing.T
	id string
}

// Addresses of the two computers. The cable has a private and a public network. The host also has
// addresses that are not on the cable.
const (
	hostCable, hostPublic, hostOwn   = "172.31.7.2", "45.45.46.5", "45.45.45.45"
	hostRouted, hostRouted6          = "45.45.50.9", "2a0a:a0a:50::" // addresses that are the host's only by local routes
	hostCable6, hostPublic6          = "fd07:31::2", "2a0a:a0a:46::5"
	worldCable, worldCable6          = "172.31.7.1", "fd07:31::1"
	hostOwn6, nameServer, hostsFiles = "2a0a:a0a::45", "9.9.9.9", "10.66.0.99 files.test\n127.0.1.1 itself.test\n"
)

func newHosts(t *testing.T) *hosts {
	t.Helper()
	testenv.NeedsRoot(t, "connect network namespaces by a cable")
	dir := t.TempDir()
	resolv, files := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "hosts")
	for path, text := range map[string]string{resolv: "nameserver " + nameServer + "\n", files: hostsFiles} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &hosts{t: t, host: newNamespace(t), world: newNamespace(t)}
	h.host.bind(resolv, "/etc/resolv.conf")
	h.host.bind(files, "/etc/hosts")
	h.host.shell(`ip link add cable type veth peer name cable netns ` + h.world.id)
	h.world.shell(`
		ip link set lo up
		ip addr add ` + worldCable + `/24 dev cable
		ip addr add ` + worldCable6 + `/64 dev cable nodad
		ip link set cable up
		ip route add local 0.0.0.0/0 dev lo table main
		ip -6 route add local ::/0 dev lo table main
		echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
		echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind
		ip route add 45.45.46.0/24 via ` + hostCable + `
		ip -6 route add 2a0a:a0a:46::/64 via ` + hostCable6)
	h.host.shell(`
		ip link set lo up
		for a in ` + hostCable + `/24 ` + hostPublic + `/24; do ip addr add $a brd + dev cable; done
		for a in ` + hostCable6 + `/64 ` + hostPublic6 + `/64; do ip addr add $a dev cable nodad; done
		ip addr add ` + hostOwn + `/32 dev lo
		ip addr add ` + hostOwn6 + `/128 dev lo nodad
		ip link set cable up
		ip route add local ` + hostRouted + `/32 dev lo src ` + hostPublic + `
		ip -6 route add local ` + hostRouted6 + `/64 dev lo
		ip route add default via ` + worldCable + `
		ip -6 route add default via ` + worldCable6 + `
		echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
		echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range`)
	h.theirs, h.ours = h.world.watch("cable"), h.host.watch("lo")
	return h
}

// pyro returns a program that runs pyro on the simulated host.
func (h *hosts) pyro() *program {
	p := workspaces(h.t)
	p.under = h.host.enter()
	return p
}

// arrivals returns all packets that have arrived since the last call. It sends markers to detect
// when all packets have arrived.
func (h *hosts) arrivals() []arrival {
	h.t.Helper()
	h.marks++
	mark := fmt.Sprint(markPrefix, h.marks)
	fmt.Fprintln(h.ours.in, mark)
	h.theirs.await(mark)
	h.ours.await(mark)
	return append(h.theirs.take(), h.ours.take()...)
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	cmd := exec.Command("unshare", "-n", "-m", "cat") // ends when this process ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testenv.Lacks(t, "no network namespaces: ", err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // this byte signals that the namespaces exist
		testenv.Lacks(t, "no network namespaces: ", err)
	}
	return &namespace{t, fmt.Sprint(cmd.Process.Pid)}
}

// enter returns the beginning of a command line that runs a program in the namespace.
func (n *namespace) enter() []string { return []string{"nsenter", "-t", n.id, "-n", "-m", "--"} }

func (n *namespace) command(argv ...string) *exec.Cmd {
	all := append(n.enter(), argv...)
	return exec.Command(all[0], all[1:]...)
}

func (n *namespace) shell(script string) {
	n.t.Helper()
	if out, err := n.command("sh", "-e", "-c", script).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

func (n *namespace) bind(from, to string) { n.shell("mount --bind '" + from + "' " + to) }

// watcher runs this test program as a server for all addresses of a namespace. The server reports
// the packets on an interface.
type watcher struct {
	t     *testing.T
	in    io.Writer
	marks chan string

	mu  sync.Mutex
	all []arrival
}

// arrival is a packet that has arrived.
type arrival struct {
	Where    string `json:"where"`
	Protocol string `json:"protocol"`
	To       string `json:"to"`   // an address, with a port if the protocol has ports
	Data     []byte `json:"data"` // beginning of the payload
}

const watchVariable, markPrefix, markPort = "PYRO_TEST_WATCH", "pyro-mark-", "7"

// TestMain runs the tests. If the variable for the watcher is set, it runs the watcher instead.
func TestMain(m *testing.M) {
	if where := os.Getenv(watchVariable); where != "" {
		if err := watch(where); err != nil {
			fmt.Fprintln(os.Stderr, "watch:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func (n *namespace) watch(where string) *watcher {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := n.command(self)
	cmd.Env = append(os.Environ(), watchVariable+"="+where)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	w := &watcher{t: n.t, in: in, marks: make(chan string, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		w.read(out)
	}()
	n.t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	w.await(markPrefix + "ready")
	return w
}

func (w *watcher) read(out io.Reader) {
	defer close(w.marks)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a arrival
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			w.t.Errorf("a watcher printed %q", lines.Text())
			continue
		}
		if strings.HasPrefix(string(a.Data), markPrefix) {
			w.marks <- string(a.Data)
			continue
		}
		w.mu.Lock()
		w.all = append(w.all, a)
		w.mu.Unlock()
	}
}

// await waits until the watcher has reported the given marker.
func (w *watcher) await(mark string) {
	w.t.Helper()
	select {
	case got := <-w.marks:
		if got != mark {
			w.t.Fatalf("a watcher saw %q, not %q", got, mark)
		}
	case <-time.After(testenv.Patience):
		w.t.Fatalf("a watcher did not report %q", mark)
	}
}

func (w *watcher) take() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}
