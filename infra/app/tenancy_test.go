package app

import "testing"

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"20/s": 20, "20": 20, "600/m": 10, "3600/h": 1, "0.5/s": 0.5, "off": 0} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "/s", "-1/s", "0/s", "NaN", "Inf", "1/d", "1e9/s", "x"} {
		if got, err := parseRate(bad); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	c := Config{Roots: []string{dir, "2=" + dir, "02=" + dir}}
	if _, err := c.rootsByTenant(); err == nil {
		t.Error("02 is no tenant, so the whole is no folder")
	}
	c.Roots = c.Roots[:2]
	by, err := c.rootsByTenant()
	if err != nil || len(by["1"]) != 1 || len(by["2"]) != 1 || by["2"][0] != dir {
		t.Fatal(by, err)
	}
	if abs, err := AbsRoot("3=."); err != nil || len(abs) < 4 || abs[:3] != "3=/" {
		t.Fatal(abs, err)
	}
}
