package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// peerFolder is the folder of desktop-commander. It contains a lock file that sets the version.
// After the installation it also contains the programs.
const peerFolder = "bench/desktop-commander"

// answering is a program that prints a prompt and answers each line.
const answering = `printf '$ '
while IFS= read -r line; do
	printf 'answer to %s\n$ ' "$line"
done
`

// comparePeer measures the same work with desktop-commander. That server uses pipes instead of
// terminals. If desktop-commander can't be installed, the comparison is omitted.
func (t *terminals) comparePeer() error {
	program := filepath.Join(t.dir, "answering")
	if err := os.WriteFile(program, []byte(answering), 0o600); err != nil {
		return err
	}
	if err := t.installPeer(); err != nil {
		fmt.Fprintln(os.Stderr, "desktop-commander is not measured:", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.ctx, peerTimeout)
	defer cancel()
	err := t.measurePeer(ctx, "bash "+program)
	if failed := (*peerError)(nil); errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, "desktop-commander is not measured:", err)
		return nil
	}
	return err
}

// peerError is an error that desktop-commander caused.
type peerError struct{ error }

func (t *terminals) measurePeer(ctx context.Context, command string) error {
	peer, its, err := t.peer(ctx, command)
	if err != nil {
		return &peerError{err}
	}
	defer peer.Close()
	s, err := t.server()
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := s.spawn(command)
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
		_, err := s.until(id, "answer to "+l+"\r\n$ ")
		return err
	}, func() error {
		l := line()
		if _, _, err := peer.call("interact_with_process", arguments{"pid": its, "input": l, "wait_for_prompt": false}); err != nil {
			return &peerError{err}
		}
		for { // reads the last lines again, because desktop-commander sometimes omits text that was added to an incomplete line
			text, _, err := peer.call("read_process_output", arguments{"pid": its, "offset": -3})
			switch {
			case err != nil:
				return &peerError{err}
			case strings.Contains(text, "answer to "+l+"\n$ "):
				return nil
			}
		}
	}, func() error {
		l := line()
		_, err := s.matched("pty_prompt", arguments{"session_id": id, "owner": owner, "data": l + "\n", "patterns": []string{"answer to " + l + "\r\n$ "}})
		return err
	}, func() error {
		l := line()
		text, _, err := peer.call("interact_with_process", arguments{"pid": its, "input": l, "timeout_ms": 5000})
		if err == nil && !strings.Contains(text, "answer to "+l) {
			err = fmt.Errorf("interact_with_process gives %q", text)
		}
		if err != nil {
			return &peerError{err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.figures = append(t.figures,
		figure("pty: a line up to its answer and prompt, two calls; floor: desktop-commander", "ms", r[0]).times(r[0], r[1], 1),
		figure("pty: a line up to its answer and prompt, one call; floor: desktop-commander", "ms", r[2]).times(r[2], r[3], 1))
	return s.close(id)
}

// peerTimeout is the maximum time of the whole measurement of desktop-commander.
const peerTimeout = 2 * time.Minute

// peer starts desktop-commander without a network and with a temporary home directory. Then it
// makes desktop-commander run a command.
func (t *terminals) peer(ctx context.Context, command string) (peer *server, pid int, err error) {
	cmd := exec.CommandContext(t.ctx, "node", peerFolder+"/node_modules/@wonderwhy-er/desktop-commander/dist/index.js", "--no-onboarding")
	cmd.Env = t.environment("DESKTOP_COMMANDER_DISABLE_TELEMETRY=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if peer, err = t.connect(cmd); err != nil {
		return nil, 0, err
	}
	peer.ctx = ctx
	text, _, err := peer.call("start_process", arguments{"command": command, "timeout_ms": 5000})
	if err == nil {
		if _, err = fmt.Sscanf(text, "Process started with PID %d", &pid); err != nil {
			err = fmt.Errorf("it says %q: %w", text, err)
		}
	}
	if err != nil {
		peer.Close()
	}
	return peer, pid, err
}

// installPeer installs desktop-commander with npm. It does not run install scripts.
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
