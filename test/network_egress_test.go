//go:build machine

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// controls are attempts that must succeed before and after all attacks. They show that the attacker
// and its targets work.
var controls = []attack{
	{Name: "TCP", Do: "tcp", To: public + ":8080", want: "connected"}, {Name: "TCP over IPv6", Do: "tcp", To: "[" + public6 + "]:8080", want: "connected"},
	{Name: "UDP", Do: "udp", To: public + ":123", want: "answered"}, {Name: "UDP over IPv6", Do: "udp", To: "[" + public6 + "]:123", want: "answered"},
	{Name: "HTTP", Do: "http", To: "http://public.test/", want: "answered"}, {Name: "a redirect", Do: "http", To: "http://" + public + "/?to=http://good.test/", want: "answered"},
	{Name: "a name", Do: "name", To: "good.test:443", want: "connected"}, {Name: "a query", Do: "query", To: "GATEWAY:53", Ask: "public.test A", want: "told " + public},
	{Name: "a query by TCP", Do: "query-tcp", To: "GATEWAY:53", Ask: "public.test AAAA", want: "told " + public6},
	{Name: "a query to another resolver", Do: "query", To: "8.8.8.8:53", Ask: "public.test A", want: "told " + public},
	{Name: "a ping", Do: "echo", To: public + ":0", want: "answered"}, {Name: "a ping over IPv6", Do: "echo", To: "[" + public6 + "]:0", want: "answered"},
	{Name: "a ping to the gateway", Do: "echo", To: "GATEWAY:0", want: "answered"},
	{Name: "a raw SYN", Do: "syn", To: good + ":80", want: "connected"}, {Name: "a raw datagram", Do: "datagram", To: other + ":80", want: "answered"},
	{Name: "fragments", Do: "fragments", To: "93.184.216.37:123", want: "answered"}, {Name: "tiny fragments", Do: "tiny fragments", To: "93.184.216.38:80", want: "connected"},
	{Name: "a translated address", Do: "tcp", To: "[" + publicNAT64 + "]:80", want: "connected"},
}

// floods are run one after the other. The supervisor must not grow or hang during any of them.
var floods = []attack{
	{Name: "ARP", Do: "flood", To: "10.66.0.1:0", Ask: "ARP", Times: 10000},
	{Name: "DHCP", Do: "flood", To: "255.255.255.255:67", Ask: "DHCP", Times: 10000},
	{Name: "NDP", Do: "flood", To: "[GATEWAY6]:0", Ask: "NDP", Times: 10000},
	{Name: "SYN to private addresses", Do: "flood", To: "10.66.20.1:80", Ask: "SYN", Times: 5000},
	{Name: "SYN to the world", Do: "flood", To: flooded + ":80", Ask: "SYN", Times: 5000},
	{Name: "fragments", Do: "flood", To: flooded + ":80", Ask: "fragments", Times: 5000},
	{Name: "pings", Do: "flood", To: flooded + ":0", Ask: "echo", Times: 2000},
	{Name: "UDP to private ports", Do: "flood", To: "10.66.20.2:0", Ask: "UDP", Times: 5000},
	{Name: "queries", Do: "dns-flood", To: "GATEWAY:53", Times: 4000},
	{Name: "queries by TCP", Do: "dns-tcp-flood", To: "GATEWAY:53", Times: 320},
	{Name: "connections", Do: "connection-flood", To: flooded + ":80", Times: 1200},
	{Name: "server that never reads", Do: "hoard", To: flooded + ":9", Times: 128},
	{Name: "UDP flows", Do: "flow-flood", To: flooded, Times: 2000},
}

// attackedWorkspace is a workspace that runs the attacker.
type attackedWorkspace struct {
	*program
	t      *testing.T
	hosts  *hosts
	id     string
	places *strings.Replacer
	args   []string
	may    []netip.Prefix // targets that the machine is allowed to reach
}

func (h *hosts) startAttacker(t *testing.T, may []string, flags ...string) *attackedWorkspace {
	t.Helper()
	seed := t.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(seed, "attacker"), "./attacker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := &attackedWorkspace{program: h.pyro(), t: t, hosts: h}
	b.id = b.create(append([]string{"--network-policy", "egress", "--seed-path", seed}, flags...)...)
	network := b.object("workspace", "status", b.id)["network"].(map[string]any)
	text := func(name string) string { return network[name].(string) }
	address, err := netip.ParsePrefix(text("address"))
	if err != nil {
		t.Fatal(err)
	}
	four := address.Addr().As4()
	b.places = strings.NewReplacer("GATEWAY6", text("gateway6"), "GATEWAY", text("gateway"),
		"NEIGHBOUR", fmt.Sprintf("%d.%d.%d.66", four[0], four[1], four[2]), "ALL", fmt.Sprintf("%d.%d.%d.255", four[0], four[1], four[2]))
	b.args = []string{"-address", address.Addr().String(), "-address6", netip.MustParsePrefix(text("address6")).Addr().String(), "-gateway", text("gateway"), "-gateway6", text("gateway6")}
	for _, prefix := range may {
		b.may = append(b.may, netip.MustParsePrefix(prefix))
	}
	return b
}

// outcome is the outcome of an attack, as the attacker reports it.
type outcome struct {
	Name, Outcome, Detail string
	Told                  []string
}

// is reports whether the outcome is the wanted outcome.
func (o outcome) is(wanted string) bool {
	return strings.HasPrefix(strings.TrimSpace(o.Outcome+" "+strings.Join(o.Told, " ")), wanted)
}

// try runs attacks concurrently and returns their outcomes by name.
func (b *attackedWorkspace) try(all []attack, workers int, flags ...string) map[string]outcome {
	b.t.Helper()
	for i := range all {
		for _, text := range []*string{&all[i].Name, &all[i].To, &all[i].Via, &all[i].record} {
			*text = b.places.Replace(*text)
		}
	}
	tasks, err := json.Marshal(all)
	if err != nil {
		b.t.Fatal(err)
	}
	argv := append([]string{"workspace", "exec", "-q", b.id, "--timeout-seconds=240", "--", "/workspace/attacker", "-workers", strconv.Itoa(workers)}, append(flags, b.args...)...)
	r := b.run(bytes.NewReader(tasks), argv...)
	if r.code != 0 {
		b.t.Fatalf("the attacker: %+v", r)
	}
	outcomes := map[string]outcome{}
	for d := json.NewDecoder(strings.NewReader(r.stdout)); d.More(); {
		var o outcome
		if err := d.Decode(&o); err != nil {
			b.t.Fatalf("%v: %.300s", err, r.stdout)
		}
		outcomes[o.Name] = o
	}
	return outcomes
}

// attack runs attacks. It checks the outcomes that the attacker reports, the packets that left the
// machine, and the log.
func (b *attackedWorkspace) attack(all []attack) {
	b.t.Helper()
	began := time.Now()
	seen := map[string]bool{}
	for _, a := range all {
		if seen[a.Name] {
			b.t.Errorf("duplicate case %q", a.Name)
		}
		seen[a.Name] = true
	}
	outcomes := b.try(all, 32)
	// Failed controls are tried again, because packets can get lost, or be late on a slow host.
	if lost := slices.DeleteFunc(slices.Clone(all), func(a attack) bool { return a.want == "" || outcomes[a.Name].is(a.want) }); len(lost) > 0 {
		maps.Copy(outcomes, b.try(lost, 4, "-patience=30s"))
	}
	for _, a := range all {
		o, ok := outcomes[a.Name]
		switch {
		case !ok:
			b.t.Errorf("%s: not tried", a.Name)
		case o.Outcome == "failed":
			b.t.Errorf("%s: could not be tried: %s", a.Name, o.Detail)
		case a.want != "" && !o.is(a.want):
			if a.Do != "dns" && a.Do != "dns-tcp" {
				b.t.Errorf("%s: %s, not %s: %.100s %v", a.Name, o.Outcome, a.want, o.Detail, o.Told)
			}
		case a.want == "" && (o.Outcome == "connected" || o.Outcome == "answered"):
			b.t.Errorf("%s: %s: %.100s", a.Name, o.Outcome, o.Detail)
		}
		for _, reported := range o.Told {
			if !b.reaches(netip.MustParseAddr(reported)) {
				b.t.Errorf("%s: the machine got %s", a.Name, reported)
			}
		}
	}
	b.judge(all)
	refused := b.refusals()
	logged := 0
	for _, a := range all {
		if a.logged == "" {
			continue
		}
		logged++
		subject := a.description()
		if !slices.ContainsFunc(refused[subject], func(reason string) bool { return strings.Contains(reason, a.logged) }) {
			b.t.Errorf("%s: records of %s: want %q, got %q; attack was %s %.100s", a.Name, subject, a.logged, refused[subject], outcomes[a.Name].Outcome, outcomes[a.Name].Detail)
		}
	}
	b.t.Logf("%d cases, of which %d are recorded, in %v", len(all), logged, time.Since(began).Round(time.Millisecond))
}

// description returns the subject of the record that an attack should cause.
func (a attack) description() string {
	if a.record != "" {
		return a.record
	}
	to := netip.MustParseAddrPort(a.To)
	protocol, port := "tcp", to.Port()
	if a.Do == "udp" || a.Do == "datagram" || protocolOf[a.Do] != "" {
		protocol = "udp"
	}
	return subjectOf(protocol, to.Addr(), port)
}

// refusals returns the recorded reasons for refusals, by subject.
func (b *attackedWorkspace) refusals() map[string][]string {
	b.t.Helper()
	all := map[string][]string{}
	for _, r := range b.object("workspace", "network", "log", b.id, "--all")["records"].([]any) {
		r := r.(map[string]any)
		if r["verdict"] != "refused" {
			continue
		}
		subject := fmt.Sprint(r["protocol"], " ", r["name"])
		if r["protocol"] != "dns" {
			port := 0.0
			if p, ok := r["port"].(float64); ok {
				port = p
			}
			subject = fmt.Sprint(r["protocol"], " ", r["address"], " ", port)
		}
		all[subject] = append(all[subject], r["reason"].(string))
	}
	return all
}

// judge reports all packets that have arrived but must not arrive.
func (b *attackedWorkspace) judge(all []attack) {
	b.t.Helper()
	time.Sleep(200 * time.Millisecond) // waits for packets in transit
	for _, a := range b.hosts.arrivals() {
		if a.To == nameServer+":53" && a.Where == "cable" && !bytes.Contains(a.Data, []byte("pyro-attack")) && !slices.ContainsFunc(all, func(x attack) bool { return bytes.Contains(a.Data, []byte(x.Name)) }) {
			continue // pyro itself sent this query
		}
		to, err := netip.ParseAddrPort(a.To)
		if err != nil {
			to = netip.AddrPortFrom(netip.MustParseAddr(a.To), 0)
		}
		if a.Where == "cable" && b.reaches(to.Addr()) {
			continue
		}
		var by []string
		for _, x := range all {
			if strings.Contains(x.To, to.Addr().String()) {
				by = append(by, x.Name)
			}
		}
		b.t.Errorf("%s %s arrived (%s) with %.60q: possible sources %.300q", a.Protocol, a.To, a.Where, a.Data, by)
	}
}

func (b *attackedWorkspace) reaches(a netip.Addr) bool {
	return slices.ContainsFunc(b.may, func(p netip.Prefix) bool { return p.Contains(a) })
}

// rebinding lists attacks with names whose addresses change after a lookup, one list per step.
var rebinding = [][]attack{
	{
		{Name: "a name that will be rebound", Do: "name", To: "rebinding.test:80", want: "connected"},
		{Name: "a name that will be rebound to the host", Do: "name", To: "rebinding-host.test:80", want: "connected"},
	},
	{
		{Name: "rebind it", Do: "query", To: "GATEWAY:53", Ask: "turn.rebinding.test A", want: "told " + public},
		{Name: "rebind it to the host", Do: "query", To: "GATEWAY:53", Ask: "turn.rebinding-host.test A", want: "told " + public},
	},
	{
		{Name: "a rebound name", Do: "name", To: "rebinding.test:80", logged: "private", record: "dns rebinding.test"},
		{Name: "a query for a rebound name", Do: "query", To: "GATEWAY:53", Ask: "rebinding.test A", logged: "private", record: "dns rebinding.test"},
		{Name: "a redirect to a rebound name", Do: "http", To: "http://" + public + "/?to=http://rebinding.test/", logged: "private", record: "dns rebinding.test"},
		{Name: "what a name was rebound to", Do: "tcp", To: "10.66.0.6:80", logged: "private"},
		{Name: "what a name was rebound to by UDP", Do: "udp", To: "10.66.0.6:123", logged: "private"},
		{Name: "a name rebound to the host", Do: "name", To: "rebinding-host.test:80", logged: "address of the host", record: "dns rebinding-host.test"},
		{Name: "the host, once a name was rebound to it", Do: "tcp", To: hostOwn + ":80", logged: "address of the host"},
	},
	{{Name: "an alternating name", Do: "query", To: "GATEWAY:53", Ask: "alternating.test A"}},
	{{Name: "an alternating name again", Do: "query", To: "GATEWAY:53", Ask: "alternating.test A"}},
	{{Name: "an alternating name by TCP", Do: "query-tcp", To: "GATEWAY:53", Ask: "alternating.test A", logged: "private", record: "dns alternating.test"}},
}

// memory returns the resident memory of a process, in MiB.
func memory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// maxGrowth is the maximum growth of a supervisor's memory, in MiB.
const maxGrowth = 96

// flood runs a flood. During the flood it checks the memory of the supervisor.
func (b *attackedWorkspace) flood(f attack) {
	b.t.Helper()
	began := time.Now()
	supervisor, _, _ := b.find(b.id)
	before, most := memory(b.t, supervisor), 0
	done, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			most = max(most, memory(b.t, supervisor))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	o := b.try([]attack{f}, 1)[f.Name]
	close(done)
	<-looked
	if o.Outcome != "sent" {
		b.t.Errorf("flood of %s: %s: %s", f.Name, o.Outcome, o.Detail)
	}
	if most-before > maxGrowth {
		b.t.Errorf("flood of %s: the supervisor grows from %d to %d MiB", f.Name, before, most)
	}
	b.judge(nil)
	b.t.Logf("flood of %s: %s, %d MiB and %d before, in %v", f.Name, o.Detail, most, before, time.Since(began).Round(time.Millisecond))
}

// TestEgress attacks the network of a machine from inside the machine. The attacker must reach only
// the public Internet.
func TestEgress(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	h := newHosts(t)
	b := h.startAttacker(t, []string{reachable, reachableAll, publicNAT64 + "/128"})
	b.attack(slices.Clone(controls))
	b.attack(slices.Concat(ranges(), forms(), names(), resolvers(), redirects(), gateways(), packets()))
	for _, step := range rebinding {
		b.attack(slices.Clone(step))
	}
	b.attack(slices.Clone(controls))
	for _, f := range floods {
		if f.Do == "flood" && testing.Short() {
			f.Times /= 4
		}
		b.flood(f)
	}
	b.attack(slices.DeleteFunc(slices.Clone(controls), func(a attack) bool {
		return strings.HasPrefix(a.Name, "UDP") || strings.Contains(a.Name, "datagram") || a.Name == "fragments"
	}))
	b.must("workspace", "stop", b.id)
	b.must("workspace", "start", b.id)
	b.attack(slices.Clone(controls))
}
