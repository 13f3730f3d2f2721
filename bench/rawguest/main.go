// Command rawguest is the /init of a machine that only transfers bytes over its virtio-serial port.
// It is the floor for all transfers. It reads one byte that selects what it does. For 'r' it writes
// forever. For 'w' it reads forever and answers "!" to data that ends with 'E'. For 'e' it echoes
// each byte.
package main

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, "")
	list, _ := os.ReadFile("/modules")
	for path := range strings.FieldsSeq(string(list)) {
		if f, err := os.Open(path); err == nil {
			unix.FinitModule(int(f.Fd()), "", 0)
			f.Close()
		}
	}
	var port *os.File
	for port == nil {
		time.Sleep(time.Millisecond)
		port, _ = os.OpenFile("/dev/vport0p1", os.O_RDWR|unix.O_NONBLOCK, 0)
	}
	buffer := make([]byte, 32<<10)
	for n := 0; n == 0; n, _ = port.Read(buffer[:1]) {
	}
	switch buffer[0] {
	case 'r':
		for {
			port.Write(buffer)
		}
	case 'w':
		for {
			n, err := port.Read(buffer)
			if n > 0 && buffer[n-1] == 'E' || err != nil {
				port.Write([]byte{'!'})
			}
		}
	case 'e':
		for {
			n, _ := port.Read(buffer)
			port.Write(buffer[:n])
		}
	}
}
