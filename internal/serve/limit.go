package serve

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// The default limits. Each sender has a bucket of tokens. A request takes a token. The bucket gets
// new tokens at the given rate, up to the given burst.
const (
	requestRate  = 100 // requests of a key, a user or an unknown address, each second
	requestBurst = 200

	// A page can consist of thousands of files, which a browser requests at the same time.
	previewRate  = 200 // requests of a user, a key or an address for previews, each second
	previewBurst = 2000

	loginRate  = 10.0 / 60 // failed logins of an address with an email, each second
	loginBurst = 10

	addressRate  = 1 // failed logins of an address with any email, each second
	addressBurst = 60
)

// maxBuckets is the maximum number of buckets of a limiter. If there are more, the limiter drops
// the least recently used bucket.
const maxBuckets = 10_000

// limiter is a rate limiter with a token bucket for each sender.
type limiter struct {
	rate, burst float64
	clock       func() time.Time

	mu      sync.Mutex
	buckets map[string]*list.Element
	recent  *list.List // list of *bucket, the most recently used first
}

type bucket struct {
	key    string
	tokens float64
	at     time.Time // of tokens
}

func newLimiter(rate, burst float64, clock func() time.Time) *limiter {
	return &limiter{rate: rate, burst: burst, clock: clock, buckets: map[string]*list.Element{}, recent: list.New()}
}

// take takes a token of a sender. If there is none, it returns the time until there is one.
func (l *limiter) take(key string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(key)
	if b.tokens < 1 {
		return time.Duration((1 - b.tokens) / l.rate * float64(time.Second)), false
	}
	b.tokens--
	return 0, true
}

// back returns a token to the bucket of a sender.
func (l *limiter) back(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(key)
	b.tokens = min(b.tokens+1, l.burst)
}

// bucket returns the bucket of a sender, refilled up to the current time.
func (l *limiter) bucket(key string) *bucket {
	now := l.clock()
	if e := l.buckets[key]; e != nil {
		l.recent.MoveToFront(e)
		b := e.Value.(*bucket)
		b.tokens = min(b.tokens+max(now.Sub(b.at), 0).Seconds()*l.rate, l.burst)
		b.at = now
		return b
	}
	if len(l.buckets) >= maxBuckets {
		last := l.recent.Back()
		delete(l.buckets, l.recent.Remove(last).(*bucket).key)
	}
	b := &bucket{key, l.burst, now}
	l.buckets[key] = l.recent.PushFront(b)
	return b
}

func rateLimited(wait time.Duration, message string) *Error {
	return &Error{
		status: http.StatusTooManyRequests, retry: max(wait, time.Second),
		Detail: Detail{Code: "rate_limited", Message: message, Hint: "wait for the time in the header Retry-After"},
	}
}

// maxInProgress is the maximum number of requests of a team that the server answers at the same
// time. Streams and MCP have limits of their own.
const maxInProgress = 512

// teamCounter counts things of each team.
type teamCounter struct {
	mu     sync.Mutex
	byTeam map[string]int
}

// add counts one of at most most things of a team. If ok is true, the caller must call end.
func (c *teamCounter) add(team string, most int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTeam[team] >= most {
		return nil, false
	}
	if c.byTeam == nil {
		c.byTeam = map[string]int{}
	}
	c.byTeam[team]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byTeam[team]--; c.byTeam[team] == 0 {
			delete(c.byTeam, team)
		}
	}, true
}

// limit takes a token for a request. It fails with rate_limited if the sender has none.
func (s *Server) limit(sender string) error {
	if wait, ok := s.requests.take(sender); !ok {
		return rateLimited(wait, "too many requests")
	}
	return nil
}

// limitPreview takes a token for a request to a preview. Clients that are allowed by a link, or
// because the port is public, share the bucket of their network. Clients that are not allowed share
// the bucket of their network for the API.
func (s *Server) limitPreview(r *http.Request, by control.Actor) (wait time.Duration, ok bool) {
	switch by.Type {
	case "":
		return s.requests.take(senderOf(control.Identity{}, r))
	case store.ActorSystem:
		return s.visits.take(senderOf(control.Identity{}, r))
	}
	return s.visits.take(senderOf(control.Identity{Actor: by}, r))
}

// senderOf returns the name of a bucket for requests of an identity. Requests of unknown senders
// share the bucket of their network.
func senderOf(i control.Identity, r *http.Request) string {
	if i.ID == "" {
		return "address " + network(address(r))
	}
	return i.Type + " " + i.ID
}

// network returns the network that one sender is assumed to own: an IPv4 address, or the /64 of an
// IPv6 address.
func network(address string) string {
	ip := net.ParseIP(address)
	if ip == nil || ip.To4() != nil {
		return address
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}

// limitLogin runs a login attempt. It fails with rate_limited after too many failed attempts.
// Successful attempts do not count.
func (s *Server) limitLogin(r *http.Request, email string, attempt func() error) error {
	from := network(address(r))
	both := from + " " + email
	if wait, ok := s.logins.take(both); !ok {
		return rateLimited(wait, "too many failed logins")
	}
	if wait, ok := s.addresses.take(from); !ok {
		s.logins.back(both)
		return rateLimited(wait, "too many failed logins")
	}
	err := attempt()
	if err == nil {
		s.logins.back(both)
		s.addresses.back(from)
	}
	return err
}
