package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"refold/handlers"
)

// internet is a resolver and a dialer: names have scripted answers, public
// addresses lead to test servers. What is dialled is noted.
type internet struct {
	t       *testing.T
	mu      sync.Mutex
	names   map[string][][]string // by look-up, the last one stays
	servers map[string]string     // address -> listener
	dialled []string
}

func newInternet(t *testing.T) *internet {
	return &internet{t: t, names: map[string][][]string{}, servers: map[string]string{}}
}

func (n *internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.names[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n.names[host] = answers[1:]
	}
	var out []netip.Addr
	for _, a := range answers[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	host, _, _ := net.SplitHostPort(address)
	to := n.servers[host]
	n.mu.Unlock()
	if to == "" {
		return nil, fmt.Errorf("nothing listens at %s", address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// at serves handler at a name with a public address, and says nothing of robots.
func (n *internet) at(name, address string, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		handler(w, r)
	}))
	n.t.Cleanup(s.Close)
	n.names[name] = [][]string{{address}}
	n.servers[address] = s.Listener.Addr().String()
	return s
}

func (n *internet) client(o Options) *Client {
	o.Resolver, o.Dial, o.Rate = n, n.dial, -1
	return New(o)
}

// neverInner checks that no address that is not public was dialled.
func (n *internet) neverInner() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.dialled {
		if a := netip.MustParseAddrPort(d).Addr(); refusal(a) != "" {
			n.t.Errorf("%s was dialled", d)
		}
	}
}

func code(err error) string {
	var e *handlers.WebError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestP71_RedirectToInnerAddress(t *testing.T) {
	n := newInternet(t)
	var inner atomic.Int64
	meta := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner.Add(1) }))
	defer meta.Close()
	n.servers["169.254.169.254"] = meta.Listener.Addr().String()
	n.servers["127.0.0.1"] = meta.Listener.Addr().String()
	n.at("public.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) {
		switch p := r.URL.Path; p {
		case "/":
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
		case "/gopher":
			w.Header().Set("Location", "gopher://127.0.0.1:80/x")
		case "/relative":
			w.Header().Set("Location", "../")
		case "/two":
			w.Header().Set("Location", "http://second.example/")
		case "/port":
			w.Header().Set("Location", "http://public.example:22/")
		case "/schemeless":
			w.Header().Set("Location", "//127.0.0.1/")
		case "/name":
			w.Header().Set("Location", "http://inner.example/")
		case "/user":
			w.Header().Set("Location", "http://a:b@public.example/ok")
		case "/round":
			w.Header().Set("Location", "/round")
		case "/good":
			w.Header().Set("Location", "/five?n=4")
		case "/five":
			if r.URL.RawQuery != "n=0" {
				w.Header().Set("Location", fmt.Sprintf("/five?n=%c", r.URL.RawQuery[2]-1))
				break
			}
			fmt.Fprint(w, "<p>arrived</p>")
			return
		}
		w.WriteHeader(http.StatusFound)
	})
	n.at("second.example", "93.184.216.35", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1/", http.StatusMovedPermanently)
	})
	n.names["inner.example"] = [][]string{{"10.0.0.5"}}
	c := n.client(Options{})
	for path, hop := range map[string]string{
		"/": "redirect 1, to http://169.254.169.254/latest/meta-data/", "/file": "file:///etc/passwd", "/gopher": "gopher://127.0.0.1:80/x",
		"/relative": "redirect 2, to http://169.254.169.254/latest/meta-data/", "/two": "redirect 2, to http://127.0.0.1/",
		"/port": "redirect 1, to http://public.example:22/", "/schemeless": "redirect 1, to http://127.0.0.1/", "/name": "redirect 1, to http://inner.example/",
		"/user": "user name", "/round": "after 5 redirects",
	} {
		page, err := c.Page(t.Context(), "http://public.example"+path)
		if code(err) != "redirect_rejected" || !strings.Contains(err.Error(), hop) {
			t.Errorf("%s: %+v %v (%s), want %q", path, page, err, code(err), hop)
		}
	}
	page, err := c.Page(t.Context(), "http://public.example/good")
	if err != nil || page.Text != "arrived" || page.URL != "http://public.example/five?n=0" {
		t.Errorf("five redirects: %+v %v", page, err)
	}
	if inner.Load() != 0 {
		t.Errorf("%d requests reached the inner server", inner.Load())
	}
	n.neverInner()
}

func TestP72_NameResolvesToInnerAddress(t *testing.T) {
	var inner atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner.Add(1) }))
	defer s.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("ALL_PROXY", proxy.URL)
	n := newInternet(t)
	n.servers["127.0.0.1"], n.servers["10.0.0.5"] = s.Listener.Addr().String(), s.Listener.Addr().String()
	n.at("public.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<p>public</p>") })
	c := n.client(Options{})
	if page, err := c.Page(t.Context(), "http://public.example/"); err != nil || page.Text != "public" {
		t.Fatalf("%+v %v", page, err)
	}
	// The answer changes between any two look-ups: none of them leads inside.
	for first := range 4 {
		answers := [][]string{}
		for range first {
			answers = append(answers, []string{"93.184.216.34"})
		}
		n.names["rebind.example"] = append(answers, []string{"127.0.0.1"})
		for range 4 {
			page, err := c.Page(t.Context(), "http://rebind.example/")
			if err == nil && page.Text != "public" || err != nil && code(err) != "ssrf_rejected" {
				t.Errorf("after %d answers: %+v %v", first, page, err)
			}
		}
	}
	for _, answers := range [][]string{{"93.184.216.34", "10.0.0.5"}, {"10.0.0.5", "93.184.216.34"}, {"::ffff:10.0.0.5"}, {"93.184.216.34", "fd00::1"}} {
		n.names["mixed.example"] = [][]string{answers}
		if page, err := c.Page(t.Context(), "http://mixed.example/"); code(err) != "ssrf_rejected" {
			t.Errorf("%v: %+v %v", answers, page, err)
		}
	}
	if inner.Load() != 0 {
		t.Errorf("%d requests went inside or to the proxy", inner.Load())
	}
	n.neverInner()
}

// opened reads ranges.
func opened(t testing.TB, list ...string) (out []Range) {
	t.Helper()
	for _, text := range list {
		r, err := ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// The system's dialer looks at the address once more.
func TestP72_ControlSeesTheRealAddress(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	g := newGuard(Options{})
	var no *unreachable
	if conn, err := g.dial(t.Context(), "tcp", s.Listener.Addr().String()); !errors.As(err, &no) {
		t.Fatalf("%v %v", conn, err)
	}
	g = newGuard(Options{AllowNet: opened(t, "127.0.0.0/8:"+s.Listener.Addr().String()[len("127.0.0.1:"):])})
	conn, err := g.dial(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

var p73 = []string{"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://100.64.0.1/", "http://[64:ff9b::7f00:1]/", "http://0.0.0.0/", "http://[::]/",
	"http://[fe80::1%25eth0]/", "http://[fd00::1]/", "http://198.18.0.1/", "http://192.0.0.8/",
	"http://127.0.0.1/", "http://[::1]/", "http://10.1.2.3/", "http://172.31.255.255/", "http://192.168.0.1/", "http://169.254.169.254/", "http://[::127.0.0.1]/",
	"http://[2002:7f00:1::]/", "http://[2001:0:1::]/", "http://[ff02::1]/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[2001:db8::1]/", "http://203.0.113.7/",
	"http://[fec0::1]/", "http://[64:ff9b:1::1]/", "http://[::ffff:0:127.0.0.1]/", "http://[4000::1]/", "http://168.63.129.16/", "http://[2606:4700::1111%25eth0]/"}

func TestP73_MappedAndSpecialAddresses(t *testing.T) {
	n := newInternet(t)
	c := n.client(Options{})
	for _, u := range p73 {
		if page, err := c.Page(t.Context(), u); code(err) != "ssrf_rejected" {
			t.Errorf("%s: %+v %v", u, page, err)
		}
		if f, err := c.Fetch(t.Context(), u); code(err) != "ssrf_rejected" {
			t.Errorf("%s as a file: %+v %v", u, f, err)
		}
	}
	if len(n.dialled) != 0 {
		t.Errorf("dialled: %v", n.dialled)
	}
	for _, a := range []string{"93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1", "1.1.1.1", "::ffff:1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1"} {
		if why := refusal(netip.MustParseAddr(a)); why != "" {
			t.Errorf("%s %s", a, why)
		}
	}
	g := newGuard(Options{AllowNet: opened(t, "10.0.0.0/8", "127.0.0.0/8:3000", "fd00::/8:3000")})
	for at, ok := range map[string]bool{"10.0.0.1:80": true, "[::ffff:10.0.0.1]:8443": true, "11.0.0.1:443": true, "192.168.0.1:80": false, "[64:ff9b::a00:1]:80": false,
		"10.0.0.1:3000": false, "11.0.0.1:3000": false, "127.0.0.1:80": false, "127.0.0.1:3000": true, "[::ffff:127.0.0.1]:3000": true, "[fd00::1]:3000": true, "[fd00::1%eth0]:3000": false} {
		if a := netip.MustParseAddrPort(at); (g.checkAddr(a.Addr(), a.Port()) == nil) != ok {
			t.Errorf("%s", at)
		}
	}
	for _, text := range []string{"", "10.0.0.1", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:65536", "10.0.0.0/33", "fd00::", "fd00::/8:x"} {
		if r, err := ParseRange(text); err == nil {
			t.Errorf("%q is %+v", text, r)
		}
	}
	own := newGuard(Options{})
	own.own = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("93.184.216.34")} }
	if own.checkAddr(netip.MustParseAddr("::ffff:93.184.216.34"), 80) == nil || own.checkAddr(netip.MustParseAddr("93.184.216.35"), 80) != nil {
		t.Error("this machine's own public address can be reached")
	}
}
