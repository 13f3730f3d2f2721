package agent

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalKeys contains the signals that a terminal can send, each with the index of its key in
// Termios.Cc.
var signalKeys = map[syscall.Signal]int{syscall.SIGINT: unix.VINTR, syscall.SIGQUIT: unix.VQUIT, syscall.SIGTSTP: unix.VSUSP}

// keySettings are the settings of a terminal for the keys that send signals.
type keySettings struct {
	keys     map[syscall.Signal]byte // empty if no key sends a signal
	discards bool                    // the keys discard unread input
}

// readKeySettings returns the settings for signal keys. If they are unknown, no key sends a signal.
func readKeySettings(terminal *os.File) keySettings {
	k := keySettings{keys: map[syscall.Signal]byte{}}
	withDescriptor(terminal, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil || t.Lflag&unix.ISIG == 0 {
			return err
		}
		k.discards = t.Lflag&unix.NOFLSH == 0
		for sig, index := range signalKeys {
			if key := t.Cc[index]; key != 0 { // 0 means that the signal has no key
				k.keys[sig] = key
			}
		}
		return nil
	})
	return k
}

// first returns the index of the first signal key in data, or -1.
func (k keySettings) first(data []byte) int {
	return slices.IndexFunc(data, func(b byte) bool {
		for _, key := range k.keys {
			if b == key {
				return true
			}
		}
		return false
	})
}

// discardInput discards the input that programs have not read from the terminal.
func discardInput(terminal *os.File) {
	asProgram(terminal, func(tty int) error { return unix.IoctlSetInt(tty, unix.TCFLSH, unix.TCIFLUSH) })
}

// typeSignal sends a signal to the foreground group by typing its key. It returns false if the
// signal has no key on this terminal or typing fails. It also returns false if there is unread
// input, because gVisor would keep the key behind it.
func typeSignal(terminal *os.File, sig syscall.Signal) bool {
	key, ok := readKeySettings(terminal).keys[sig]
	if !ok || unread(terminal) > 0 {
		return false
	}
	err := withDescriptor(terminal, func(fd int) error {
		_, err := unix.Write(fd, []byte{key}) // does not wait
		return err
	})
	return err == nil
}
