package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// same checks a response against a template: the same keys, the same values,
// and <uuid>, <time>, <text>, <number>, <array> or <object> where only the kind
// is known before.
func (a answer) same(t testing.TB, status int, template string) {
	t.Helper()
	if a.status != status {
		t.Errorf("HTTP %d, want %d: %s", a.status, status, a.body)
	}
	if ct := a.head.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("Content-Type %q", ct)
	}
	var want, got any
	if err := json.Unmarshal([]byte(template), &want); err != nil {
		t.Fatalf("template: %v: %s", err, template)
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	if err := d.Decode(&got); err != nil {
		t.Errorf("%v: %s", err, a.body)
		return
	}
	if diff := compare("", want, got); len(diff) > 0 {
		t.Errorf("%s\nin %s", strings.Join(diff, "\n"), a.body)
	}
}

func compare(at string, want, got any) []string {
	bad := func() []string {
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		return []string{fmt.Sprintf("%s: want %s, got %s", at, w, g)}
	}
	switch want := want.(type) {
	case string:
		s, isText := got.(string)
		fits := got == any(want)
		switch want {
		case "<uuid>":
			fits = isText && uuidForm.MatchString(s)
		case "<time>":
			_, err := time.Parse(time.RFC3339Nano, s)
			fits = isText && err == nil && !strings.HasPrefix(s, "0001-")
		case "<text>":
			fits = isText && s != ""
		case "<number>":
			_, fits = got.(float64)
		case "<array>":
			_, fits = got.([]any)
		case "<object>":
			_, fits = got.(map[string]any)
		}
		if !fits {
			return bad()
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return bad()
		}
		var out []string
		for _, k := range keys(want, g) {
			w, wanted := want[k]
			v, there := g[k]
			switch {
			case !there:
				out = append(out, at+"."+k+": missing")
			case !wanted:
				out = append(out, at+"."+k+": not expected")
			default:
				out = append(out, compare(at+"."+k, w, v)...)
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return bad()
		}
		var out []string
		for i := range want {
			out = append(out, compare(fmt.Sprintf("%s[%d]", at, i), want[i], g[i])...)
		}
		return out
	default:
		if want != got {
			return bad()
		}
	}
	return nil
}

func keys(a, b map[string]any) []string {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	out := make([]string, 0, len(all))
	for k := range all {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// refused checks an error in the usual envelope: code, reason ("" = details are
// null) and a part of the message.
func (a answer) refused(t testing.TB, status, code int, reason, part string) {
	t.Helper()
	details := "null"
	if reason != "" {
		details = `{"reason":"` + reason + `"}`
	}
	a.same(t, status, fmt.Sprintf(`{"success":false,"error":{"code":%d,"message":"<text>","details":%s}}`, code, details))
	if !strings.Contains(a.body, part) {
		t.Errorf("the message lacks %q: %s", part, a.body)
	}
}
