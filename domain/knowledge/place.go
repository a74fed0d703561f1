package knowledge

import (
	"net/url"
	"strings"
)

// PlainFolder checks the path of a folder: "" is the root.
func PlainFolder(path string) (string, error) {
	if runes(path) > MaxFolder {
		return "", ErrBadFolder
	}
	path = strings.Trim(line(strings.ReplaceAll(path, "\\", "/")), "/")
	if path == "" {
		return "", nil
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		if p == "" || p == "." || p == ".." || runes(p) > MaxFolderPart {
			return "", ErrBadFolder
		}
		parts[i] = p
	}
	if path = strings.Join(parts, "/"); len(parts) > MaxFolderDepth {
		return "", ErrBadFolder
	}
	return path, nil
}

// PlainURL is an address as it is compared with others: scheme and host in lower
// case, without the port that goes without saying, and without a fragment.
func PlainURL(address string) (string, error) {
	address = strings.TrimSpace(address)
	if len(address) > MaxURL {
		return "", invalid("bad_url", "an address has at most %d bytes", MaxURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Hostname() == "" || u.Opaque != "" {
		return "", ErrBadURL
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", ErrBadURL
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		port = ""
	}
	switch {
	case port != "":
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		u.Host = host + ":" + port
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), nil
}
