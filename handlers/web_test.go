package handlers

import "testing"

func TestCanonicalURL(t *testing.T) {
	for raw, want := range map[string]string{
		"HTTPS://Example.COM:443":                                   "https://example.com/",
		"http://example.com:80/a?b=1#c":                             "http://example.com/a?b=1",
		"http://example.com:8080/a":                                 "http://example.com:8080/a",
		"example.com/a":                                             "https://example.com/a",
		" https://例子.中国/页 ":                                         "https://%E4%BE%8B%E5%AD%90.%E4%B8%AD%E5%9B%BD/%E9%A1%B5",
		"https://example.com./a":                                    "https://example.com/a",
		"http://[2606:4700::1111]:80/":                              "http://[2606:4700::1111]/",
		"http://93.184.216.34/":                                     "http://93.184.216.34/",
		"https://github.com/o/r/blob/main/dir/a%20b.go#L3":          "https://raw.githubusercontent.com/o/r/main/dir/a%20b.go",
		"https://github.com/o/r/blob/main":                          "https://github.com/o/r/blob/main",
		"https://github.com/o/r/tree/main/dir":                      "https://github.com/o/r/tree/main/dir",
		"https://raw.githubusercontent.com/o/r/main/a.go":           "https://raw.githubusercontent.com/o/r/main/a.go",
		"https://evil.example/https://github.com/o/r/blob/main/d/a": "https://evil.example/https://github.com/o/r/blob/main/d/a",
	} {
		u, err := CanonicalURL(raw)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v %v, want %q", raw, u, err, want)
		}
	}
	for _, raw := range []string{"", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "http://", "http:///a", "https://user:pw@example.com/",
		"http://2130706433/", "http://0x7f000001/", "http://127.1/", "http://0177.0.0.1/", "http://1.2.3.0x4/", "http://a b/", "http://127.0.0.1%2f@x/", "gopher://x/", "http:example.com", "data:text/html,x"} {
		if u, err := CanonicalURL(raw); err == nil {
			t.Errorf("%q became %v", raw, u)
		}
	}
}
