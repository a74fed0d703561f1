package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"refold/handlers"
)

const article = `<html><head><title>Canteen - Example</title></head><body><nav><a href="/a">Home</a> <a href="/b">Shop</a></nav>
<article><h1>The canteen</h1><p>%s</p><table><tr><th>Day<th>Dish<tr><td>Monday<td>Noodles</table></article>
<footer>Imprint and cookies</footer><script>alert(1)</script></body></html>`

func TestPage(t *testing.T) {
	n := newInternet(t)
	prose := strings.Repeat("The canteen opens at noon, and it has noodles, which are good. ", 20)
	chinese, err := simplifiedchinese.GB18030.NewEncoder().String("<html><body><p>" + strings.Repeat("食堂中午开门，面条很好吃。", 40) + "</p></body></html>")
	if err != nil {
		t.Fatal(err)
	}
	n.at("pages.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) {
		set := func(kind string) { w.Header().Set("Content-Type", kind) }
		switch r.URL.Path {
		case "/article":
			fmt.Fprintf(w, article, prose)
		case "/gbk":
			set("text/html; charset=gbk")
			io.WriteString(w, chinese)
		case "/gbk-meta":
			set("text/html")
			io.WriteString(w, `<meta charset="gb2312">`+chinese)
		case "/utf8":
			set("text/html")
			io.WriteString(w, "<p>"+strings.Repeat("a", 2000)+"食堂</p>")
		case "/json":
			set("application/json")
			io.WriteString(w, `{"a": 1}`)
		case "/pdf":
			set("application/pdf")
			io.WriteString(w, "%PDF-1.7")
		case "/binary":
			w.Write([]byte{0, 1, 2, 0xff})
		case "/script":
			io.WriteString(w, "<html><body><div id=app></div><script>render()</script></body></html>")
		case "/deep":
			io.WriteString(w, "<html>"+strings.Repeat("<div>", 1000))
		case "/empty":
		case "/403":
			w.WriteHeader(http.StatusForbidden)
		case "/429":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/500":
			w.WriteHeader(http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	})
	c := n.client(Options{})
	for path, want := range map[string]string{
		"/article": "|Monday|Noodles|", "/gbk": "食堂中午开门，面条很好吃。", "/gbk-meta": "食堂中午开门，面条很好吃。", "/utf8": "食堂", "/json": `{"a": 1}`,
	} {
		page, err := c.Page(t.Context(), "http://pages.example"+path)
		if err != nil || !strings.Contains(page.Text, want) || strings.Contains(page.Text, "\uFFFD") {
			t.Errorf("%s: %v\n%s", path, err, page.Text)
		}
		if path == "/article" && (strings.Contains(page.Text, "Imprint") || strings.Contains(page.Text, "alert") || !strings.Contains(page.Title, "Canteen")) {
			t.Errorf("not the readable part: %q\n%s", page.Title, page.Text)
		}
	}
	for path, want := range map[string]struct {
		code  string
		retry bool
	}{
		"/pdf": {"read_failed", false}, "/binary": {"read_failed", false}, "/script": {"empty_content", false}, "/deep": {"html_parse_failed", false}, "/empty": {"empty_content", false},
		"/403": {"http_403", false}, "/429": {"http_429", true}, "/500": {"http_5xx", true}, "/404": {"http_status", false},
	} {
		_, err := c.Page(t.Context(), "http://pages.example"+path)
		if e, ok := err.(*handlers.WebError); !ok || e.Code != want.code || e.Retryable != want.retry || !strings.HasSuffix(e.Message, ".") {
			t.Errorf("%s: %#v", path, err)
		}
	}
	for address, want := range map[string]string{"http://nowhere.example/": "dns_failed", "ftp://pages.example/": "invalid_url", "http://pages.example:22/": "ssrf_rejected", "https://pages.example/": "tls_failed"} {
		if _, err := c.Page(t.Context(), address); code(err) != want {
			t.Errorf("%s: %v (%s), want %s", address, err, code(err), want)
		}
	}
}

// Pages that are large and oddly built give bounded text, or an error.
func TestPage_Hostile(t *testing.T) {
	n := newInternet(t)
	n.at("hostile.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		parts := map[string]string{"/p": "<p>a, b", "/b": "<b>x", "/br": "<br>", "/td": "<table><td>", "/a": "<a href=x>y", "/li": "<ul><li>a</ul>", "/div": "<div>a<div>b</div></div>"}
		io.WriteString(w, strings.Repeat(parts[r.URL.Path], 1<<20/len(parts[r.URL.Path])))
	})
	c := n.client(Options{MaxPage: 256 << 10})
	for _, path := range []string{"/p", "/b", "/br", "/td", "/a", "/li", "/div"} {
		page, err := c.Page(t.Context(), "http://hostile.example"+path)
		if len(page.Text) > 16<<20 {
			t.Errorf("%s: %d bytes, %v", path, len(page.Text), err)
		}
	}
}

func TestRobots(t *testing.T) {
	n := newInternet(t)
	var asked, read atomic.Int64
	s := n.at("robots.example", "93.184.216.34", nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			asked.Add(1)
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\nUser-agent: refold\nDisallow: /not-for-refold\n")
			return
		}
		read.Add(1)
		fmt.Fprint(w, "<p>page</p>")
	})
	broken := n.at("broken.example", "93.184.216.35", nil)
	broken.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		read.Add(1)
	})
	n.at("leads.example", "93.184.216.36", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://robots.example/not-for-refold", http.StatusFound)
	})
	c := n.client(Options{})
	for address, want := range map[string]string{"http://robots.example/not-for-refold/x?y": "robots_denied", "http://robots.example/open": "", "http://robots.example/private": "",
		"http://broken.example/": "robots_denied", "http://leads.example/": "robots_denied"} {
		_, err := c.Page(t.Context(), address)
		if want != "" && code(err) != want || want == "" && err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if asked.Load() != 1 || read.Load() != 2 {
		t.Errorf("robots.txt was asked for %d times, %d pages were read", asked.Load(), read.Load())
	}
	if f, err := c.Fetch(t.Context(), "http://robots.example/not-for-refold"); err != nil {
		t.Error("a file that a person named is fetched:", err)
	} else {
		f.Content.Close()
	}
}

func TestFetch(t *testing.T) {
	n := newInternet(t)
	n.at("files.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		for _, h := range []string{"Content-Type", "Content-Disposition", "Content-Length"} {
			if v := q.Get(h); v != "" {
				w.Header().Set(h, v)
			}
		}
		if q.Get("Content-Length") == "" {
			io.WriteString(w, "bytes")
		}
	})
	c := n.client(Options{})
	for path, want := range map[string]string{
		"/dir/report.pdf?Content-Type=application/pdf":                                      "report.pdf pdf",
		"/dir/report?Content-Type=application/pdf":                                          "report.pdf pdf",
		"/x?Content-Disposition=attachment%3B+filename%3D%22..%2F..%2Fetc%2Fdata.csv%22":    "data.csv csv",
		"/x?Content-Disposition=attachment%3B+filename%2A%3DUTF-8%27%27%25E5%2591%2598.csv": "员.csv csv",
		"/page.php?Content-Type=text/html":                                                  "page.php.html html",
		"/README.md?Content-Type=text/plain":                                                "README.md md",
		"/notes.markdown?Content-Type=text/markdown":                                        "notes.markdown markdown",
		"/?Content-Type=text/html%3B+charset%3Dutf-8":                                       "files.example.html html",
		"/a%2Fb%5Cc%00d.txt?Content-Type=text/plain":                                        "cd.txt txt",
		"/data.csv?Content-Type=application/octet-stream":                                   "data.csv csv",
	} {
		f, err := c.Fetch(t.Context(), "http://files.example"+path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		data, err := io.ReadAll(f.Content)
		f.Content.Close()
		if got := f.Name + " " + f.Type; got != want || string(data) != "bytes" || err != nil {
			t.Errorf("%s: %q, want %q; %q %v", path, got, want, data, err)
		}
	}
	if _, err := c.Fetch(t.Context(), "http://files.example/big?Content-Length=2147483648"); code(err) != "too_large" {
		t.Errorf("2 GB: %v", err)
	}
}
