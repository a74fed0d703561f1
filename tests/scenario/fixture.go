package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"refold/domain/event"
)

// Fixtures checks that testdata holds <Type>.v<n>.json for every version of
// every event that was ever written, that all of them can still be read, and
// that those of the current version come out as the same JSON again, with no
// field of the Go type left at its zero value.
func Fixtures[E any](t *testing.T, codec *event.Codec[E]) {
	t.Helper()
	for _, name := range codec.Names() {
		for schema := 1; schema <= codec.Schema(name); schema++ {
			file := filepath.Join("testdata", fmt.Sprintf("%s.v%d.json", name, schema))
			data, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("every version ever written needs a fixture: %v", err)
				continue
			}
			e, err := codec.Decode(name, schema, data)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if got := reflect.TypeOf(e).Name(); got != name {
				t.Errorf("%s is of Go type %s", file, got)
			}
			if schema < codec.Schema(name) {
				continue
			}
			if empty := unset(reflect.ValueOf(e), ""); len(empty) > 0 {
				t.Errorf("%s leaves fields unset: %s", file, strings.Join(empty, ", "))
			}
			wire, n, again, err := codec.Encode(e)
			if err != nil || wire != name || n != schema {
				t.Errorf("%s is written as %s, schema %d: %v", file, wire, n, err)
			}
			if d := Diff(indented(t, data), indented(t, again)); d != "" {
				t.Errorf("%s is written differently now (- file, + written):\n%s", file, d)
			}
		}
	}
}

// indented gives JSON with sorted keys and one value on a line; numbers keep
// their digits.
func indented(t *testing.T, data []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(out), "\n")
}

// unset lists the fields of a struct, also nested ones, that are zero.
func unset(v reflect.Value, path string) []string {
	var out []string
	switch {
	case v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).IsExported():
		for i := range v.NumField() {
			out = append(out, unset(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Index(0).Kind() == reflect.Struct:
		out = unset(v.Index(0), path+"[0]")
	case v.IsZero():
		out = append(out, path)
	}
	return out
}
