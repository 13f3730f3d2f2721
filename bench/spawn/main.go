// Command spawn runs inside a machine. It measures how long fork, exec and wait take. "spawn N
// PROGRAM" prints the time of each run in nanoseconds, one per line.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	for range n {
		began := time.Now()
		p, err := os.StartProcess(os.Args[2], os.Args[2:], &os.ProcAttr{Files: []*os.File{null, null, null}})
		if err != nil {
			panic(err)
		}
		p.Wait()
		fmt.Println(time.Since(began).Nanoseconds())
	}
}
