package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"refold/handlers"
)

// Resolver looks names up; a *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// guard decides what may be reached, and connects.
type guard struct {
	allow    []Range
	ports    []uint16
	resolver Resolver
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	own      func() []netip.Addr
}

// DefaultPorts are those that pages are served on.
var DefaultPorts = []uint16{80, 443, 8080, 8443}

func newGuard(o Options) *guard {
	g := &guard{allow: o.AllowNet, ports: o.Ports, resolver: o.Resolver, dial: o.Dial, own: ownAddresses}
	if len(g.ports) == 0 {
		g.ports = DefaultPorts
	}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	if g.dial == nil {
		d := &net.Dialer{ControlContext: g.control}
		g.dial = d.DialContext
	}
	return g
}

// unreachable marks an address or port that may not be reached.
type unreachable struct{ why string }

func (e *unreachable) Error() string { return e.why }

// check looks at a URL before anything is sent: scheme, host, port, and the
// address where the host is one.
func (g *guard) check(u *url.URL) error {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := readPort(text)
	if err != nil {
		return err
	}
	if a, ok := literal(u.Hostname()); ok {
		return g.checkAddr(a, port)
	}
	if !slices.Contains(g.ports, port) && !slices.ContainsFunc(g.allow, func(r Range) bool { return r.Port == port }) {
		return badPort(port)
	}
	return nil
}

func readPort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, &unreachable{fmt.Sprintf("%q is no port", text)}
	}
	return uint16(n), nil
}

func badPort(port uint16) error {
	return &unreachable{fmt.Sprintf("port %d is not one that public pages are served on (80, 443, 8080, 8443); an operator opens it for a range of addresses with --allow-net CIDR:%[1]d", port)}
}

// checkAddr refuses an address with its port, unless it is public or opened.
func (g *guard) checkAddr(a netip.Addr, port uint16) error {
	opened := a.Zone() == "" && slices.ContainsFunc(g.allow, func(r Range) bool { return r.opens(a.Unmap(), port, g.ports) })
	if opened {
		return nil
	}
	if why := refusal(a); why != "" {
		return &unreachable{fmt.Sprintf("the address %s %s; an operator opens a range of addresses with --allow-net", a, why)}
	}
	if slices.Contains(g.own(), a.Unmap()) {
		return &unreachable{fmt.Sprintf("the address %s is this machine's own", a)}
	}
	if !slices.Contains(g.ports, port) {
		return badPort(port)
	}
	return nil
}

// literal reads a host that is an address.
func literal(host string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err == nil {
		return a, true
	}
	// A zone may still be escaped.
	if base, zone, ok := strings.Cut(host, "%"); ok {
		if a, err := netip.ParseAddr(base); err == nil {
			return a.WithZone("x" + zone), true
		}
	}
	return netip.Addr{}, false
}

// connect looks a name up once, refuses it if any of its addresses may not be
// reached, and connects to one that was checked.
func (g *guard) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := readPort(text)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if a, ok := literal(host); ok {
		addrs = append(addrs, a)
	} else if addrs, err = g.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	for _, a := range addrs {
		if err := g.checkAddr(a, port); err != nil {
			return nil, err
		}
	}
	const tries = 4
	var failed error
	for _, a := range addrs[:min(tries, len(addrs))] {
		conn, err := g.dial(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), text))
		if err == nil {
			return conn, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// control looks at the address once more, as the system is about to connect.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s over %s: %w", address, network, err)
	}
	return g.checkAddr(at.Addr(), at.Port())
}

// ownAddresses are the addresses of this machine's interfaces: what listens on
// all of them is not meant for models, even where they are public.
func ownAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}

// webError turns what went wrong on the way to u into what is told.
func webError(u *url.URL, hop int, err error) *handlers.WebError {
	var told *handlers.WebError
	if errors.As(err, &told) {
		return told
	}
	at := place(u, hop)
	var no *unreachable
	if errors.As(err, &no) {
		code := "ssrf_rejected"
		if hop > 0 {
			code = "redirect_rejected"
		}
		return &handlers.WebError{Code: code, Message: fmt.Sprintf("%s is not fetched: %s.", at, no.why)}
	}
	code, why := failure(err)
	return &handlers.WebError{Code: code, Message: fmt.Sprintf("%s could not be fetched: %s.", at, why), Retryable: code == "connection_timeout" || code == "connection_failed"}
}

// place names a hop for people and models.
func place(u *url.URL, hop int) string {
	text := u.Redacted()
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	if hop == 0 {
		return text
	}
	return fmt.Sprintf("redirect %d, to %s,", hop, text)
}
