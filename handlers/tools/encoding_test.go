package tools

import (
	"bytes"
	binary32 "encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"refold/infra/parse/charset"
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
	wide := func(order binary32.ByteOrder) string {
		var b []byte
		for _, c := range "alpha 年假\n" {
			b = append(b, 0, 0, 0, 0)
			order.PutUint32(b[len(b)-4:], uint32(c))
		}
		return string(b)
	}
	dir := tree(t, map[string]string{
		"gbk.txt": gbkText, "late.txt": strings.Repeat("nothing here\n", sniff/10) + gbkText,
		"le.txt": utf16Of("alpha 年假\r\n😀 two\r\n", false), "be.txt": utf16Of("alpha 年假\r\n😀 two\r\n", true),
		"bare.txt": utf16Of("alpha without a mark\n", false)[2:], "thirtytwo.txt": "\xff\xfe\x00\x00" + wide(binary32.LittleEndian),
		"utf8.txt": "\xef\xbb\xbfalpha 年假十天。\n", "latin.txt": "alpha caf\xe9 cr\xe8me br\xfbl\xe9e\n",
		"cyrillic.txt": "alpha \xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0\n", "broken.txt": "alpha 年假十天。\xff\n", "program.bin": "alpha\x00\x01\x02\xff",
	})
	grep, read := GrepFiles{Decode: charset.Decode}, ReadFile{Decode: charset.Decode}
	got := in(t, dir, grep, `{"pattern":"^alpha .*(?:年假|caf|mark|\uFFFD)|出差报销单规定"}`)
	late := strconv.Itoa(sniff/10 + 1)
	if want := "bare.txt:1: alpha without a mark\nbe.txt:1: alpha 年假\nbroken.txt:1: alpha 年假十天。\uFFFD\n" +
		"cyrillic.txt:1: alpha \uFFFD, \uFFFD\ngbk.txt:1: 出差报销单规定 alpha\nlate.txt:" + late + ": 出差报销单规定 alpha\nlatin.txt:1: alpha café crème brûlée\n" +
		"le.txt:1: alpha 年假\nthirtytwo.txt:1: alpha 年假\nutf8.txt:1: alpha 年假十天。\n" +
		"[10 matches in 10 files; 1 files left out as binary; 1 files in an encoding that cannot be told, so only their ASCII was searched: cyrillic.txt]"; got.Output != want {
		t.Errorf("%q\n%q", got.Output, want)
	}
	for name, want := range map[string]string{
		"gbk.txt":      "gbk.txt (lines 1-2 of 2)\n   1| 出差报销单规定 alpha\n   2| 年假十天。\n[the text was read as gb18030]",
		"le.txt":       "le.txt (lines 1-2 of 2)\n   1| alpha 年假\n   2| 😀 two\n[the text was read as utf-16le]",
		"be.txt":       "be.txt (lines 1-2 of 2)\n   1| alpha 年假\n   2| 😀 two\n[the text was read as utf-16be]",
		"utf8.txt":     "utf8.txt (lines 1-1 of 1)\n   1| alpha 年假十天。",
		"broken.txt":   "broken.txt (lines 1-1 of 1)\n   1| alpha 年假十天。\uFFFD",
		"cyrillic.txt": "cyrillic.txt (lines 1-1 of 1)\n   1| alpha \uFFFD, \uFFFD\n[the encoding of this text cannot be told: of what is not ASCII \uFFFD is shown]",
	} {
		if got := in(t, dir, read, `{"path":"`+name+`"}`); got.Output != want {
			t.Errorf("%q %s", got.Output, got.Error)
		}
	}
	if got := in(t, dir, read, `{"path":"program.bin"}`); !strings.Contains(got.Error, "is a binary file of 9 bytes") {
		t.Errorf("%+v", got)
	}
	// Without a decoder nothing is guessed.
	if got := in(t, dir, GrepFiles{}, `{"pattern":"alpha","path":"gbk.txt"}`); !strings.Contains(got.Output, "cannot be told, so only their ASCII was searched: gbk.txt") {
		t.Errorf("%+v", got)
	}
}

// A file that is too large to be held is read as a stream, in its encoding.
func TestEncodingsOfLargeFiles(t *testing.T) {
	const lines = 400_000
	text := strings.Repeat("alpha beta gamma delta\n", lines)
	dir := tree(t, map[string]string{
		"ascii.txt": text + "年假\n", "wide.txt": utf16Of(text[:len(text)/2]+"年假\n", false), "gbk.txt": strings.Repeat(gbkText, lines),
		"cyrillic.txt": strings.Repeat("alpha \xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0\n", lines*2), "program.bin": strings.Repeat("\x00\xfe\x01", lines*8),
	})
	for name, want := range map[string][2]string{
		"ascii.txt":    {"400001| 年假", ""},
		"wide.txt":     {"200001| 年假", "[the text was read as utf-16le]"},
		"gbk.txt":      {"800000| 年假十天。", "[the text was read as gb18030]"},
		"cyrillic.txt": {"800000| alpha \uFFFD", "[the encoding of this text cannot be told"},
	} {
		line, _, _ := strings.Cut(want[0], "|")
		if got := in(t, dir, ReadFile{Decode: charset.Decode}, `{"path":"`+name+`","offset":`+line+`}`); !strings.Contains(got.Output, want[0]) || !strings.Contains(got.Output, want[1]) {
			t.Errorf("%s: %q %s", name, got.Output, got.Error)
		}
	}
	if got := in(t, dir, ReadFile{Decode: charset.Decode}, `{"path":"program.bin"}`); !strings.Contains(got.Error, "is a binary file") {
		t.Errorf("%+v", got)
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
