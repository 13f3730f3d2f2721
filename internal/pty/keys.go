package pty

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// keySignals contains the signals that a terminal can send, each with the index of its key in
// Termios.Cc.
var keySignals = map[syscall.Signal]int{syscall.SIGINT: unix.VINTR, syscall.SIGQUIT: unix.VQUIT, syscall.SIGTSTP: unix.VSUSP}

// Keys are the keys of a terminal that send signals to its foreground process group, such as
// Ctrl-C.
type Keys struct {
	Of       map[syscall.Signal]byte // the key of each signal; empty if no key sends a signal
	Discards bool                    // a key also discards the unread input
}

// SignalKeys returns the keys that send signals. If the settings of the terminal are unknown, no
// key sends a signal. Either end can be passed.
func SignalKeys(end *os.File) Keys {
	k := Keys{Of: map[syscall.Signal]byte{}}
	settings, err := Settings(end)
	if err != nil || settings.Lflag&unix.ISIG == 0 {
		return k
	}
	k.Discards = settings.Lflag&unix.NOFLSH == 0
	for sig, index := range keySignals {
		if key := settings.Cc[index]; key != 0 { // 0 means that the signal has no key
			k.Of[sig] = key
		}
	}
	return k
}

// First returns the index of the first key in data that sends a signal, or -1.
func (k Keys) First(data []byte) int {
	return slices.IndexFunc(data, func(b byte) bool {
		for _, key := range k.Of {
			if b == key {
				return true
			}
		}
		return false
	})
}

// DiscardsFor reports whether the terminal has a key for a signal, and the key discards unread
// input. A program that gets the signal from elsewhere expects the same.
func (k Keys) DiscardsFor(sig syscall.Signal) bool {
	_, ok := k.Of[sig]
	return ok && k.Discards
}

// TypeSignal sends a signal to the foreground process group by typing its key. It returns false if
// the signal has no key on this terminal or typing fails. It also returns false if there is unread
// input, because gVisor would keep the key behind it.
func TypeSignal(controlling *os.File, sig syscall.Signal) bool {
	key, ok := SignalKeys(controlling).Of[sig]
	if !ok || Unread(controlling) > 0 {
		return false
	}
	err := with(controlling, func(fd int) error {
		_, err := unix.Write(fd, []byte{key}) // does not wait, unlike File.Write
		return err
	})
	return err == nil
}
