package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"
)

// utf16Of is text in UTF-16 with its mark.
func utf16Of(text string, big bool) string {
	var b bytes.Buffer
	for _, u := range utf16.Encode([]rune("\uFEFF" + text)) {
		pair := []byte{byte(u), byte(u >> 8)}
		if big {
			pair = []byte{byte(u >> 8), byte(u)}
		}
		b.Write(pair)
	}
	return b.String()
}

const gbkText = "\xb3\xf6\xb2\xee\xb1\xa8\xcf\xfa\xb5\xa5\xb9\xe6\xb6\xa8 alpha\r\n\xc4\xea\xbc\xd9\xca\xae\xcc\xec\xa1\xa3\n" // 出差报销单规定, 年假十天。

func TestEncodings(t *testing.T) {
	long := strings.Repeat("alpha 😀 年假\r\n", 3000)
	dir := tree(t, map[string]string{
		"gbk.txt": gbkText, "le.txt": utf16Of("alpha 年假\r\n😀 two\r\n", false), "be.txt": utf16Of("alpha 年假\r\n😀 two\r\n", true),
		"long.txt": utf16Of(long, false), "utf8.txt": "alpha 年假十天。\n", "latin.txt": "alpha caf\xe9 cr\xe8me br\xfbl\xe9e\n", "thirtytwo.txt": "\xff\xfe\x00\x00a\x00\x00\x00",
	})
	list := in(t, dir, ListFiles{}, `{}`)
	if want := "gbk.txt\t33\t(text in GBK/GB18030, not UTF-8: cannot be read)\n"; !strings.Contains(list.Output, want) || strings.Count(list.Output, "not UTF-8") != 2 ||
		!strings.Contains(string(list.Data), `{"path":"gbk.txt","size":33,"encoding":"GBK/GB18030"}`) {
		t.Errorf("%s %s", list.Output, list.Data)
	}
	if got := in(t, dir, ReadFile{}, `{"path":"gbk.txt"}`); !strings.Contains(got.Error, "GBK/GB18030") {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"le.txt", "be.txt"} {
		got := in(t, dir, ReadFile{}, `{"path":"`+name+`"}`)
		if want := name + " (lines 1-2 of 2)\n   1| alpha 年假\n   2| 😀 two"; got.Output != want {
			t.Errorf("%q %s", got.Output, got.Error)
		}
	}
	got := in(t, dir, GrepFiles{}, `{"pattern":"alpha 年假|caf"}`)
	if want := "be.txt:1: alpha 年假\nlatin.txt:1: alpha caf\uFFFD cr\uFFFDme br\uFFFDl\uFFFDe\nle.txt:1: alpha 年假\nutf8.txt:1: alpha 年假十天。\n" +
		"[4 matches in 4 files; 2 files left out because their text is not UTF-8: gbk.txt (GBK/GB18030), thirtytwo.txt (UTF-32)]"; got.Output != want {
		t.Errorf("%q", got.Output)
	}
	if got := in(t, dir, ReadFile{}, `{"path":"long.txt","offset":3000}`); !strings.HasSuffix(got.Output, "3000| alpha 😀 年假") {
		t.Errorf("%q", got.Output)
	}
	if got, err := io.ReadAll(newUTF16Reader(strings.NewReader(utf16Of(long, true)), utf16BE)); err != nil || string(got) != long {
		t.Errorf("%v: %d bytes", err, len(got))
	}
	for raw, want := range map[string]string{"\xff\xfe": "", "\xff\xfea": "\uFFFD", "\xff\xfe\x3d\xd8a\x00": "\uFFFDa", "\xff\xfe\x3d\xd8": "\uFFFD"} {
		if got, err := io.ReadAll(newUTF16Reader(strings.NewReader(raw), utf16LE)); err != nil || string(got) != want {
			t.Errorf("%q: %q %v", raw, got, err)
		}
	}
}

// A character that is cut where looking ends does not change the encoding.
func TestEncodingOfCutText(t *testing.T) {
	for cut := range 4 {
		if got := encodingOf([]byte(strings.Repeat("a", cut) + strings.Repeat("年假", sniff))); got != "" {
			t.Errorf("%d: %s", cut, got)
		}
		if got := encodingOf([]byte(strings.Repeat("a", cut) + strings.Repeat(gbkText, sniff))); got != gbk {
			t.Errorf("%d: %q", cut, got)
		}
	}
}

// A name is opened as it is shown, also when characters of it are not shown.
func TestNamesAsShown(t *testing.T) {
	dir := tree(t, map[string]string{"a\tb.txt": "tab alpha\n", "end\n": "newline alpha\n", "zero\u200bwidth.txt": "zero alpha\n", "bad\xff.txt": "bytes alpha\n",
		"d\x01/x.txt": "below alpha\n", "two\x02": "one", "two\x03": "other"})
	for name, want := range map[string]string{
		"a\uFFFDb.txt": "tab alpha", "a\tb.txt": "tab alpha", "end\uFFFD": "newline alpha", "zerowidth.txt": "zero alpha", "bad\uFFFD.txt": "bytes alpha", "d\uFFFD/x.txt": "below alpha",
	} {
		args, _ := json.Marshal(map[string]string{"path": name, "pattern": "alpha"})
		for _, got := range []string{in(t, dir, ReadFile{}, string(args)).Output, in(t, dir, GrepFiles{}, string(args)).Output} {
			if !strings.Contains(got, want) {
				t.Errorf("%q: %q", name, got)
			}
		}
	}
	for _, name := range []string{"two\uFFFD", "gone\uFFFD"} {
		if got := in(t, dir, ReadFile{}, fmt.Sprintf(`{"path":%q}`, name)); got.Error == "" || strings.HasPrefix(name, "two") && !strings.Contains(got.Error, "cannot be told which") {
			t.Errorf("%q: %+v", name, got)
		}
	}
	if got := in(t, dir, ListFiles{}, `{"path":"d\uFFFD"}`); !strings.HasPrefix(got.Output, "d\uFFFD/x.txt\t") {
		t.Errorf("%+v", got)
	}
}
