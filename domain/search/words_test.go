package search

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"Hello, World!":                      "hello world",
		"年假":                                 "年假 假",
		"带薪年假。结转":                            "带薪 薪年 年假 假 结转 转",
		"税":                                  "税",
		"用API接口":                             "用 api 接口 口",
		"ＡＰＩ　１２３":                            "api 123",
		"foo_bar":                            "foo_bar foo bar",
		"fooBar":                             "foobar foo bar",
		"HTTPServer":                         "httpserver http server",
		"v1.2":                               "v1.2 1 2",
		"GPT4o-mini":                         "gpt4o-mini gpt 4 mini",
		"1,000 and 1,00":                     "1000 and 1 00",
		"don't the user's":                   "dont the user",
		"C++ C# a+b x#1":                     "c++ c# a b x 1",
		"café naïve Straße":                  "cafe naiv strase",
		"cafe\u0301":                         "cafe",
		"zero\u200bwidth soft\u00adhyphen":   "zerowidth softhyphen",
		"user@example.com":                   "user example.com exampl com",
		"/api/v1/users":                      "api v1 1 user",
		"2026-11-30":                         "2026-11-30 2026 11 30",
		"running runs runner policies flies": "run run runner polici fli",
		"... --- ___ '":                      "",
		"Привет мир":                         "привет мир",
		"한국어 문서":                             "한국 국어 어 문서 서",
		"a.b.c":                              "a.b.c",
		"\u0301\u0301":                       "",
	} {
		if got := strings.Join(Terms(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQueryTerms(t *testing.T) {
	for query, want := range map[string]string{
		"How do I reset the password?": "reset password",
		"what is it":                   "what is it",
		"如何报销差旅费？":                     "报销 销差 差旅 旅费",
		"年假有多少天":                       "年假 天*",
		"请问年假可以结转吗":                    "年假 结转",
		"税":                            "税*",
		"税 费":                          "税* 费*",
		"什么":                           "什么",
		"retry retry RETRY":            "retri",
		"增值税 税 税务 发票":                  "增值 值税 税务 发票",
	} {
		var got []string
		for _, term := range QueryTerms(query) {
			if term.Prefix {
				term.Text += "*"
			}
			got = append(got, term.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if n := len(QueryTerms(strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "x "))); n > MaxTerms {
		t.Errorf("%d terms", n)
	}
}

// The examples are those of Porter's paper.
func TestStem(t *testing.T) {
	for word, want := range map[string]string{
		"caresses": "caress", "ponies": "poni", "ties": "ti", "caress": "caress", "cats": "cat", "feed": "feed", "agreed": "agre", "plastered": "plaster",
		"bled": "bled", "motoring": "motor", "sing": "sing", "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan",
		"falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi", "sky": "sky", "relational": "relat",
		"conditional": "condit", "rational": "ration", "valenci": "valenc", "digitizer": "digit", "operator": "oper", "feudalism": "feudal", "decisiveness": "decis",
		"hopefulness": "hope", "callousness": "callous", "formaliti": "formal", "sensitiviti": "sensit", "sensibiliti": "sensibl", "triplicate": "triplic",
		"formative": "form", "formalize": "formal", "electrical": "electr", "hopeful": "hope", "goodness": "good", "revival": "reviv", "allowance": "allow",
		"inference": "infer", "airliner": "airlin", "adjustable": "adjust", "defensible": "defens", "irritant": "irrit", "replacement": "replac",
		"adjustment": "adjust", "dependent": "depend", "adoption": "adopt", "communism": "commun", "activate": "activ", "effective": "effect",
		"probate": "probat", "rate": "rate", "cease": "ceas", "controll": "control", "roll": "roll", "connection": "connect", "connecting": "connect",
		"as": "as", "is": "is", "s": "s", "ss": "ss", "ies": "i", "ing": "ing", "ed": "ed", "eed": "eed", "yyy": "yyi",
	} {
		if got := stem(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// Whatever the text: terms are short, of the promised alphabet, and the same for
// the same text in other widths and cases.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"", "fooBar v1.2 年假", "\xff\xfe", "a'b'c's", "1,000,000", "C++ # + -", "ＡＢＣ．ｄ", strings.Repeat("界", 300), strings.Repeat("aB1_", 300), "e\u0301\u200b", "กำ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms := Terms(text)
		for _, term := range terms {
			if term == "" || len(term) > maxTerm || !utf8.ValidString(term) {
				t.Fatalf("term %q of %q", term, text)
			}
			for _, r := range term {
				ok := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune("_-.+#ー々", r)
				if !ok || r < utf8.RuneSelf && unicode.IsUpper(r) {
					t.Fatalf("term %q of %q has %q", term, text, r)
				}
			}
		}
		if again := Terms(fold(text)); !slices.Equal(terms, again) {
			t.Fatalf("%q: %q, and folded %q", text, terms, again)
		}
		lexemes, _ := Lexemes(1<<40, text, text, text)
		for _, l := range lexemes {
			if strings.ContainsAny(l, " \t\n\"'\\*:()&|!<>") {
				t.Fatalf("lexeme %q", l)
			}
		}
		QueryTerms(text)
	})
}
