package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// peerFolder has the other server of terminals: its version, by a lock file, and once it was installed, its programs.
const peerFolder = "bench/desktop-commander"

// answering is a program with a prompt, that says again what is typed into it.
const answering = `printf '$ '
while IFS= read -r line; do
	printf '%s\n$ ' "$line"
done
`

// beside measures the same work by the tools of desktop-commander, whose programs have pipes and no terminal. Where that can't be had, this alone is not measured.
func (t *terminals) beside() error {
	peer, err := t.peer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "desktop-commander is not measured:", err)
		return nil
	}
	defer peer.Close()
	program := filepath.Join(t.dir, "answering")
	if err := os.WriteFile(program, []byte(answering), 0o600); err != nil {
		return err
	}
	text, _, err := peer.call("start_process", arguments{"command": "bash " + program, "timeout_ms": 5000})
	if err != nil {
		return err
	}
	started := regexp.MustCompile(`PID (\d+)`).FindStringSubmatch(text)
	if started == nil {
		return fmt.Errorf("desktop-commander says %q", text)
	}
	its, err := strconv.Atoi(started[1])
	if err != nil {
		return err
	}
	s, err := t.server()
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := s.spawn("bash " + program)
	if err == nil {
		_, err = s.until(id, "$ ")
	}
	if err != nil {
		return err
	}
	lines := 0
	line := func() string { lines++; return fmt.Sprintf("line %d", lines) }
	r, err := t.times(max(t.n, 10), func() error {
		l := line()
		if err := s.write(id, l+"\n"); err != nil {
			return err
		}
		_, err := s.until(id, l+"\r\n$ ")
		return err
	}, func() error {
		l := line()
		if _, _, err := peer.call("interact_with_process", arguments{"pid": its, "input": l, "wait_for_prompt": false}); err != nil {
			return err
		}
		for seen := ""; !strings.Contains(seen, l+"\n$ "); {
			text, _, err := peer.call("read_process_output", arguments{"pid": its, "timeout_ms": 5000})
			if err != nil {
				return err
			}
			seen += text
		}
		return nil
	}, func() error {
		l := line()
		_, err := s.matched("pty_prompt", arguments{"session_id": id, "owner": owner, "data": l + "\n", "patterns": []string{l + "\r\n$ "}})
		return err
	}, func() error {
		l := line()
		text, _, err := peer.call("interact_with_process", arguments{"pid": its, "input": l, "timeout_ms": 5000})
		if err == nil && !strings.Contains(text, l) {
			err = fmt.Errorf("desktop-commander gives %q", text)
		}
		return err
	})
	if err != nil {
		return err
	}
	t.figures = append(t.figures,
		figure("pty: a line up to its answer and prompt, two calls; floor: desktop-commander", "ms", r[0]).times(r[0], r[1], 1),
		figure("pty: a line up to its answer and prompt, one call; floor: desktop-commander", "ms", r[2]).times(r[2], r[3], 1))
	return s.close(id)
}

// peer installs desktop-commander where it is not, and starts it: without a network, and with a home of its own.
func (t *terminals) peer() (*server, error) {
	if err := t.installPeer(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(t.ctx, "node", peerFolder+"/node_modules/@wonderwhy-er/desktop-commander/dist/index.js", "--no-onboarding")
	cmd.Env = t.environment("DESKTOP_COMMANDER_DISABLE_TELEMETRY=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	return t.connect(cmd)
}

// installPeer has npm install it, but for what its packages would run for that.
func (t *terminals) installPeer() error {
	lock, err := os.ReadFile(peerFolder + "/package-lock.json")
	if err != nil {
		return err
	}
	const installed = peerFolder + "/node_modules/.installed"
	if have, _ := os.ReadFile(installed); bytes.Equal(have, lock) {
		return nil
	}
	cmd := exec.CommandContext(t.ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = peerFolder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return os.WriteFile(installed, lock, 0o644)
}
