package web

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// refused are the ranges that no request goes to: what is not the public
// internet, by the registries of special addresses, and what tunnels into it.
// Mapped IPv4 addresses are unmapped before they are looked up here.
var refused = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by carriers (CGNAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's inner service"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/96"), "an embedded IPv4 address"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "a mapped IPv4 address"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "a translated IPv4 address"},
	{netip.MustParsePrefix("64:ff9b::/96"), "a translated IPv4 address (NAT64)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a translated IPv4 address (NAT64)"},
	{netip.MustParsePrefix("100::/64"), "discarded"},
	{netip.MustParsePrefix("2001::/23"), "reserved for protocols (Teredo among them)"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "a tunnel (6to4)"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// global is all of IPv6 that is given out to networks so far.
var global = netip.MustParsePrefix("2000::/3")

// refusal says why an address is not public, "" if it is.
func refusal(a netip.Addr) string {
	if !a.IsValid() {
		return "is no address"
	}
	if a.Zone() != "" {
		return "names an interface of this machine"
	}
	a = a.Unmap()
	for _, r := range refused {
		if r.prefix.Contains(a) {
			return fmt.Sprintf("is %s, not public", r.what)
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "is not a public address"
	}
	return ""
}

// Range is what an operator opens although it is not public.
type Range struct {
	Prefix netip.Prefix
	Port   uint16 // the only one, 0 = those that pages are served on
}

// ParseRange reads CIDR or CIDR:PORT, such as 10.1.0.0/16 and fd00::/8:3000.
func ParseRange(text string) (r Range, err error) {
	if i := strings.LastIndexByte(text, ':'); i > strings.IndexByte(text, '/') {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || port == 0 {
			return r, fmt.Errorf("%q is no port", text[i+1:])
		}
		r.Port, text = uint16(port), text[:i]
	}
	r.Prefix, err = netip.ParsePrefix(text)
	return r, err
}

func (r Range) opens(a netip.Addr, port uint16, ports []uint16) bool {
	return r.Prefix.Contains(a) && (r.Port == port || r.Port == 0 && slices.Contains(ports, port))
}
