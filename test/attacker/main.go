// Command attacker tries from inside a machine what its network must not let through. It reads tasks as JSON and prints what became of each. The test that it
// belongs to says what should have.
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

// task is one thing to try.
type task struct {
	Name  string `json:"name"`
	Do    string `json:"do"`
	To    string `json:"to"`    // an address and a port, or what is to be looked up
	Ask   string `json:"ask"`   // a name or what else is asked for
	Via   string `json:"via"`   // another address
	Times int    `json:"times"` // of a flood
}

// result is what became of it.
type result struct {
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Detail  string   `json:"detail,omitempty"`
	Told    []string `json:"told,omitempty"` // the addresses of a name
}

// The outcomes. The first two are what an attack must not come to.
const (
	connected = "connected"
	answered  = "answered"
	refused   = "refused" // somebody said no
	silence   = "silence"
	told      = "told"   // by the name server
	sent      = "sent"   // of a flood: all of it
	local     = "local"  // it did not leave this machine's kernel
	failed    = "failed" // it was not tried
)

// patience is how long an answer is waited for.
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
	return result{Outcome: failed, Detail: "nobody knows how to " + t.Do}
}
