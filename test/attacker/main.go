// Command attacker attacks the network of a machine from inside the machine. It reads tasks as JSON
// and prints the result of each task. The test that runs it decides which results are acceptable.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"
)

// task describes an attack.
type task struct {
	Name  string `json:"name"`
	Do    string `json:"do"`
	To    string `json:"to"`    // an address and a port, or a name
	Ask   string `json:"ask"`   // a name, or the name of another payload
	Via   string `json:"via"`   // another address
	Times int    `json:"times"` // number of repetitions of a flood
}

// result is the outcome of a task.
type result struct {
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Detail  string   `json:"detail,omitempty"`
	Told    []string `json:"told,omitempty"` // addresses that a name resolved to
}

// The possible outcomes. An attack must not have one of the first two.
const (
	connected = "connected"
	answered  = "answered"
	refused   = "refused" // rejected by an error
	silence   = "silence"
	reported  = "told"   // the name server answered
	sent      = "sent"   // all packets of a flood were sent
	local     = "local"  // the packet did not leave this machine's kernel
	failed    = "failed" // the attack was not tried
)

// patience is the time to wait for an answer.
var patience = flag.Duration("patience", time.Second, "")

func main() {
	workers := flag.Int("workers", 24, "how many tasks are tried at once")
	link := flag.String("link", "eth0", "")
	var own links
	flag.TextVar(&own.address, "address", netip.Addr{}, "this machine's")
	flag.TextVar(&own.address6, "address6", netip.Addr{}, "")
	flag.TextVar(&own.gateway, "gateway", netip.Addr{}, "")
	flag.TextVar(&own.gateway6, "gateway6", netip.Addr{}, "")
	flag.Parse()
	if err := run(*link, own, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1)
	}
}

func run(link string, own links, workers int) error {
	var tasks []task
	if err := json.NewDecoder(os.Stdin).Decode(&tasks); err != nil {
		return err
	}
	w, err := openWire(link, own)
	if err != nil {
		return err
	}
	todo := make(chan task)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for t := range todo {
				r := attempt(w, t)
				r.Name = t.Name
				mu.Lock()
				out.Encode(r)
				mu.Unlock()
			}
		})
	}
	for _, t := range tasks {
		todo <- t
	}
	close(todo)
	all.Wait()
	return nil
}

func attempt(w *wire, t task) result {
	if shape := shapes[t.Do]; shape != nil {
		return w.try(t, shape)
	}
	if do := actions[t.Do]; do != nil {
		return do(t)
	}
	if flood := floods[t.Do]; flood != nil {
		return flood(w, t)
	}
	return result{Outcome: failed, Detail: "unknown action " + t.Do}
}
