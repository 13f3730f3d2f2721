// Command traffic is the program at both ends of the network measurements. It runs in machines,
// including the machine that is the floor, and as the remote server.
//
//	traffic serve ADDRESS          serves connections by their first byte.
//	traffic get ADDRESS SECONDS    reads for a time and prints the received MB per second.
//	traffic put ADDRESS SECONDS    writes for a time and prints the delivered MB per second.
//	traffic connect ADDRESS TIMES  connects repeatedly and prints the time of each in ms.
//
// The first byte of a connection selects what the server does. For 'r' the server sends bytes
// forever. For 'w' it reads until the end and sends a confirmation. For 'e' it echoes.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	what, address := os.Args[1], os.Args[2]
	if what == "serve" {
		log.Fatal(serve(address))
	}
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = map[string]func(string, int) error{"get": get, "put": put, "connect": connect}[what](address, n)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const bufferSize = 256 << 10

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(c)
	}
}

func answer(c net.Conn) {
	defer c.Close()
	mode := make([]byte, 1)
	if _, err := io.ReadFull(c, mode); err != nil {
		return
	}
	switch mode[0] {
	case 'r':
		buffer := make([]byte, bufferSize)
		for {
			if _, err := c.Write(buffer); err != nil {
				return
			}
		}
	case 'w':
		buffer := make([]byte, bufferSize)
		for {
			if _, err := c.Read(buffer); err != nil {
				c.Write(mode)
				return
			}
		}
	case 'e':
		buffer := make([]byte, 1)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := c.Write(buffer); err != nil {
				return
			}
		}
	}
}

func dial(address string, mode byte) (*net.TCPConn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte{mode})
	return c.(*net.TCPConn), err
}

func get(address string, seconds int) error {
	c, err := dial(address, 'r')
	if err != nil {
		return err
	}
	defer c.Close()
	return measure(seconds, c.Read, func() error { return nil })
}

func put(address string, seconds int) error {
	c, err := dial(address, 'w')
	if err != nil {
		return err
	}
	defer c.Close()
	return measure(seconds, c.Write, func() error {
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	})
}

// measure transfers bytes for the given time, and waits until they have arrived. It prints the
// throughput.
func measure(seconds int, move func([]byte) (int, error), arrived func() error) error {
	buffer := make([]byte, bufferSize)
	began, moved := time.Now(), 0
	for time.Since(began) < time.Duration(seconds)*time.Second {
		n, err := move(buffer)
		if err != nil {
			return err
		}
		moved += n
	}
	if err := arrived(); err != nil {
		return err
	}
	_, err := fmt.Println(float64(moved) / 1e6 / time.Since(began).Seconds())
	return err
}

func connect(address string, times int) error {
	for range times {
		began := time.Now()
		c, err := net.Dial("tcp", address)
		took := time.Since(began)
		if err != nil {
			return err
		}
		c.Close()
		fmt.Println(float64(took.Nanoseconds()) / 1e6)
	}
	return nil
}
