package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// actions lists attacks that use ordinary sockets.
var actions = map[string]func(task) result{
	"tcp": dialTCP, "udp": sendUDP, "http": getHTTP, "name": dialName, "query": query, "query-tcp": queryTCP, "dns": rawQuery, "dns-tcp": rawQueryTCP, "held": held,
}

// dialTCP connects to an address and reads from the connection. The address can be in any notation.
func dialTCP(t task) result {
	to, err := parse(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	c, err := net.DialTimeout("tcp", to.String(), 3**patience)
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(*patience))
	fmt.Fprintf(c, "%s\r\n\r\n", t.Name)
	said, _ := io.ReadAll(io.LimitReader(c, 100))
	return result{Outcome: connected, Detail: string(said)}
}

func sendUDP(t task) result {
	to, err := parse(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	return exchange(to, []byte(t.Name))
}

// exchange sends a datagram and waits for an answer.
func exchange(to netip.AddrPort, datagram []byte) result {
	c, err := net.Dial("udp", to.String())
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	if _, err := c.Write(datagram); err != nil {
		return failure(err)
	}
	c.SetDeadline(time.Now().Add(*patience))
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		return failure(err)
	}
	return result{Outcome: answered, Detail: string(b[:n])}
}

// held sends repeatedly on one UDP flow.
func held(t task) result {
	to, err := parse(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	c, err := net.Dial("udp", to.String())
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	b := make([]byte, 1<<12)
	for range max(t.Times, 1) {
		c.SetDeadline(time.Now().Add(*patience))
		if _, err := c.Write([]byte(t.Name)); err != nil {
			return failure(err)
		}
		if _, err := c.Read(b); err != nil {
			return failure(err)
		}
	}
	return result{Outcome: answered}
}

// getHTTP sends an HTTP request and follows redirects.
func getHTTP(t task) result {
	client := http.Client{Timeout: 4 * *patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(t.To)
	if err != nil {
		return failure(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
	return result{Outcome: answered, Detail: string(body)}
}

// dialName resolves a name with the system's resolver and connects to all addresses of the name.
func dialName(t task) result {
	host, port, _ := net.SplitHostPort(t.To)
	ctx, cancel := context.WithTimeout(context.Background(), 4**patience)
	defer cancel()
	resolver := net.Resolver{PreferGo: true}
	all, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return failure(err)
	}
	r := result{Outcome: reported}
	for _, a := range all {
		r.Told = append(r.Told, a.Unmap().String())
		n, _ := strconv.ParseUint(port, 10, 16)
		if got := dialTCP(task{Name: t.Name, To: netip.AddrPortFrom(a.Unmap(), uint16(n)).String()}); got.Outcome == connected {
			r.Outcome, r.Detail = connected, got.Detail
		}
	}
	return r
}

func failure(err error) result {
	r := result{Outcome: refused, Detail: err.Error()}
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EMSGSIZE):
		r.Outcome = local
	case errors.As(err, &timeout) && timeout.Timeout():
		r.Outcome = silence
	}
	return r
}

// parse parses an address and a port. It accepts all notations of inet_aton: 1 to 4 parts. Each
// part is decimal, octal (prefix 0) or hexadecimal (prefix 0x).
func parse(text string) (netip.AddrPort, error) {
	if to, err := netip.ParseAddrPort(text); err == nil {
		return to, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	parts := strings.Split(host, ".")
	var address uint64
	for i, part := range parts {
		digits := part
		base := 10
		if hex, ok := strings.CutPrefix(strings.ToLower(part), "0x"); ok {
			base, digits = 16, hex
		} else if len(part) > 1 && part[0] == '0' {
			base, digits = 8, part[1:]
		}
		value, err := strconv.ParseUint(digits, base, 32)
		if err != nil {
			return netip.AddrPort{}, err
		}
		if i == len(parts)-1 {
			address |= value
		} else {
			address |= value << (24 - 8*i)
		}
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(address))
	return netip.AddrPortFrom(netip.AddrFrom4(b), uint16(n)), nil
}

// queryTCP sends a query to a name server over TCP.
func queryTCP(t task) result {
	return overTCP(t, func() []byte {
		q := question(t)
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	}())
}

func overTCP(t task, content []byte) result {
	c, err := net.DialTimeout("tcp", t.To, 3**patience)
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * *patience))
	go c.Write(content)
	said, err := io.ReadAll(io.LimitReader(c, 2))
	if len(said) < 2 {
		if err == nil {
			err = io.EOF
		}
		return failure(err)
	}
	answer := make([]byte, binary.BigEndian.Uint16(said))
	n, _ := io.ReadFull(c, answer)
	return interpret(bytes.Clone(answer[:n]))
}
