//go:build machine

package test

import "testing"

// bubble is a program that enables the loopback interface of a new network namespace, then uses the
// interface. It does the same as bubblewrap with --unshare-net. With the argument "stay" it leaves
// its netlink socket open.
const bubble = `import ctypes, socket, struct, sys, time
if ctypes.CDLL(None).unshare(0x40000000): sys.exit("unshare failed")
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def ask(kind, flags, body):
	s.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
	error = struct.unpack("=i", s.recv(4096)[16:20])[0]
	if error: sys.exit("message %d: error %d" % (kind, error))
ip = socket.inet_aton("127.0.0.1")
ask(20, 0x600, struct.pack("=BBBBI", 2, 8, 0x80, 254, 1) + struct.pack("=HH", 8, 2) + ip + struct.pack("=HH", 8, 1) + ip)
ask(16, 0, struct.pack("=BxHiII", 0, 0, 1, 1, 1))
server = socket.create_server(("127.0.0.1", 8000))
socket.create_connection(("127.0.0.1", 8000))
print("connected", flush=True)
if sys.argv[1:] == ["stay"]: time.sleep(1000)
`

// TestNetworkNamespaces checks that a program can set up a network namespace as on Linux. It also
// tests a machine that was paused while the program had an open netlink socket.
func TestNetworkNamespaces(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.must("workspace", "file", "write", id, "bubble.py", "--text", bubble)
	p.shell(id, "python3 bubble.py")
	p.must("workspace", "service", "start", id, "stays", "--ready-command", "test -e /tmp/up", "--", "sh", "-c", "python3 bubble.py stay | while read l; do touch /tmp/up; done")
	p.must("workspace", "pause", id)
	p.shell(id, "python3 bubble.py")
	if s := p.object("workspace", "service", "status", id, "stays"); s["state"] != "running" {
		t.Errorf("%v", s)
	}
}
