package agent

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/agent/proctree"
)

const (
	socketListens  = "0A"    // the state of a listening socket in /proc/net/tcp.
	maxDescriptors = 1 << 16 // descriptors of one process to search
)

// checkListener returns an error if the other end of a connection is known to belong to a program
// other than p. names are the names of other execs, for the error. checkListener returns nil if the
// other end is on another computer, or if the kernel does not say which process it belongs to. When
// ctx ends, the error does not name the program.
func (s *Server) checkListener(ctx context.Context, p *process, conn net.Conn, names map[string]string) error {
	local, err1 := netip.ParseAddrPort(conn.LocalAddr().String())
	remote, err2 := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !remote.Addr().IsLoopback() && remote.Addr() != local.Addr() {
		return nil
	}
	sockets, err := listeners(remote)
	if err != nil {
		return err
	}
	if own, err := s.listens(p, sockets); own || err != nil || len(sockets) == 0 {
		return err
	}
	unknown := notReady(fmt.Sprintf("port %d belongs to another program", remote.Port()))
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if ctx.Err() != nil {
			return unknown
		}
		other := s.execs.running(id)
		if other == nil || other == p {
			continue
		}
		if listens, err := s.listens(other, sockets); listens && err == nil {
			return notReady(fmt.Sprintf("port %d belongs to %s", remote.Port(), names[id]))
		}
	}
	all, err := proctree.Read()
	if err != nil {
		return err
	}
	for pid := range all {
		if ctx.Err() != nil {
			break
		}
		if found, known := holds(pid, sockets); found && known {
			name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
			return notReady(fmt.Sprintf("port %d belongs to another program, %q", remote.Port(), strings.TrimSpace(string(name))))
		}
	}
	return unknown
}

// listens reports whether a process of an exec has one of the sockets, or could have it.
func (s *Server) listens(p *process, sockets map[string]bool) (bool, error) {
	members, err := p.group.Members(p.command.PID())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(members, func(pid int) bool {
		found, known := holds(pid, sockets)
		return found || !known
	}), nil
}

// listeners returns the sockets that get the connections to an address, in the form of the links in
// /proc/PID/fd. It returns the sockets that listen at the address itself. If there are none, it
// returns the sockets that listen at all addresses.
func listeners(at netip.AddrPort) (map[string]bool, error) {
	exact, all := map[string]bool{}, map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			// Format: number, local address, remote address, state, … , inode, …
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != socketListens {
				continue
			}
			local, ok := tableAddress(fields[1])
			switch socket := "socket:[" + fields[9] + "]"; {
			case !ok || local.Port() != at.Port():
			case local.Addr() == at.Addr().Unmap():
				exact[socket] = true
			case local.Addr().IsUnspecified():
				all[socket] = true
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	if len(exact) > 0 {
		return exact, nil
	}
	return all, nil
}

// tableAddress parses an address of /proc/net/tcp. Each four bytes of it are a number in the order
// of the processor, which is little endian.
func tableAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	b, err1 := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if errors.Join(err1, err2) != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// holds reports whether a process has one of the sockets. known is false if the agent can't see the
// descriptors of the process.
func holds(pid int, sockets map[string]bool) (found, known bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	dir, err := os.Open(folder)
	if err != nil {
		return false, !errors.Is(err, fs.ErrPermission) // otherwise the process has ended
	}
	defer dir.Close()
	for seen := 0; seen < maxDescriptors; {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			if target, err := os.Readlink(filepath.Join(folder, name)); err == nil && sockets[target] {
				return true, true
			}
		}
		if err != nil {
			return false, errors.Is(err, io.EOF) || !errors.Is(err, fs.ErrPermission)
		}
		seen += len(names)
	}
	return false, false
}
