package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type fake struct {
	def   Definition
	clean func(run string) error
}

func (f fake) Definition() Definition                    { return f.def }
func (f fake) Run(context.Context, Call) (Result, error) { return Result{Output: "ok"}, nil }
func (f fake) Clean(_ context.Context, run string) error { return f.clean(run) }

func named(name string) fake {
	return fake{def: Definition{Name: name, Effect: ReadOnly, Schema: json.RawMessage(` {"type": "object", "properties": {"b":{},"a":{}}} `)},
		clean: func(string) error { return nil }}
}

func TestRegistryFirstWins(t *testing.T) {
	var r Registry
	first := named("same")
	first.def.Description = "built in"
	if err := r.Register(first); err != nil {
		t.Fatal(err)
	}
	err := r.Register(named("same"))
	if !errors.Is(err, ErrDuplicate) || !strings.Contains(err.Error(), `"same"`) {
		t.Errorf("%v", err)
	}
	if def, _ := r.Definition("same"); def.Description != "built in" {
		t.Errorf("%+v", def)
	}
	if _, ok := r.Get("other"); ok {
		t.Error("other")
	}
}

func TestRegistryRefuses(t *testing.T) {
	for _, change := range []func(*Definition){
		func(d *Definition) { d.Name = "" },
		func(d *Definition) { d.Name = "a.b" },
		func(d *Definition) { d.Name = "a\n" },
		func(d *Definition) { d.Name = strings.Repeat("a", 65) },
		func(d *Definition) { d.Effect = "" },
		func(d *Definition) { d.Schema = nil },
		func(d *Definition) { d.Schema = json.RawMessage(`{"type":"array"}`) },
		func(d *Definition) { d.Schema = json.RawMessage(`{"type":"object"`) },
	} {
		f := named("x")
		change(&f.def)
		var r Registry
		if err := r.Register(f); err == nil {
			t.Errorf("%+v was registered", f.def)
		}
	}
}

func TestRegistryDefinitionsAreByteIdentical(t *testing.T) {
	var a, b Registry
	for _, n := range []string{"b", "C", "a_1"} {
		_ = a.Register(named(n))
	}
	for _, n := range []string{"a_1", "b", "C"} {
		_ = b.Register(named(n))
	}
	x, _ := json.Marshal(a.Definitions())
	y, _ := json.Marshal(b.Definitions())
	if string(x) != string(y) || strings.Join(a.Names(), " ") != "C a_1 b" {
		t.Errorf("%s\n%s", x, y)
	}
	if def, _ := a.Definition("b"); string(def.Schema) != `{"type":"object","properties":{"b":{},"a":{}}}` {
		t.Errorf("%s", def.Schema)
	}
	if z, _ := json.Marshal(new(Registry).Definitions()); string(z) != "[]" {
		t.Errorf("%s", z)
	}
}

func TestCleanRunTriesAll(t *testing.T) {
	var r Registry
	var cleaned []string
	for _, n := range []string{"a", "b", "c"} {
		f := named(n)
		f.clean = func(run string) error {
			cleaned = append(cleaned, n+run)
			switch n {
			case "a":
				return errors.New("stuck")
			case "b":
				panic("boom")
			}
			return nil
		}
		_ = r.Register(f)
	}
	err := r.CleanRun(context.Background(), "7")
	if strings.Join(cleaned, " ") != "a7 b7 c7" || err == nil || !strings.Contains(err.Error(), "stuck") || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v %v", cleaned, err)
	}
}

func TestRisky(t *testing.T) {
	text := func(s string) json.RawMessage { b, _ := json.Marshal(map[string]any{"command": s}); return b }
	for s, want := range map[string]string{
		"rm -rf /tmp/x":                        RiskDelete,
		"cd a && RM  -fR b":                    RiskDelete,
		"rm --force -r b":                      RiskDelete,
		"rm b --recursive":                     RiskDelete,
		"/bin/rm \\\n -r b":                    RiskDelete,
		"bash -c 'rm -r b'":                    RiskDelete,
		"find . -name x -delete":               RiskDelete,
		"Remove-Item x -Recurse":               RiskDelete,
		"rd /S /Q x":                           RiskDelete,
		"shutil.rmtree('x')":                   RiskDelete,
		"drop\n table  users":                  RiskDrop,
		"DROP/**/TABLE IF EXISTS \"u\"":        RiskDrop,
		"select 1; DROP -- x\n TABLE t":        RiskDrop,
		"TRUNCATE TABLE users":                 RiskTruncate,
		"begin; truncate users cascade":        RiskTruncate,
		"psql -c \"TRUNCATE a, b\"":            RiskTruncate,
		"git push --force":                     RiskForcePush,
		"git -C /repo push origin main -f":     RiskForcePush,
		"git push origin +main":                RiskForcePush,
		"git push --force-with-lease=main":     RiskForcePush,
		"git  reset\t--hard HEAD~1":            RiskHardReset,
		"git reset HEAD~1 --hard;":             RiskHardReset,
		"rm file.txt":                          "",
		"rm -f file-r":                         "",
		"farm -rf x":                           "",
		"docker run --rm -it x":                "",
		"rm a; ls -R":                          "",
		"git push origin force":                "",
		"git push origin feature-f":            "",
		"git push --follow-tags":               "",
		"git commit -m \"push --force later\"": "",
		"git reset --soft HEAD":                "",
		"git log && grep --hard reset":         "",
		"drop_table(x)":                        "",
		"droptable users":                      "",
		"the drop tables are listed":           "",
		"truncate_text(x)":                     "",
		"SELECT TRUNCATE(1.25, 1)":             "",
		"Please truncate the answer to 10":     "",
		"confirm -r":                           "",
	} {
		got, ok := Risky(text(s))
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	for _, s := range []string{`{"argv":["rm","-rf","x"]}`, `{"command":"git","args":["push","--force"]}`, `{"a":[{"b":{"c":"drop\u0020table t"}}]}`,
		`{"s":"{\"command\":\"rm -rf x\"}"}`, `rm -rf x`} {
		if _, ok := Risky(json.RawMessage(s)); !ok {
			t.Errorf("%s is not risky", s)
		}
	}
	if reason, ok := Risky(json.RawMessage(`{"argv":["git","status"],"n":1,"b":null}`)); ok {
		t.Error(reason)
	}
}
