package extractive

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
	"refold/infra/parse/charset"
)

var update = flag.Bool("update", false, "write the golden files anew")

var offered = []tool.Tool{tools.ListFiles{}, tools.GrepFiles{Decode: charset.Decode}, tools.ReadFile{Decode: charset.Decode}}

func definitions() []tool.Definition {
	var list []tool.Definition
	for _, t := range offered {
		list = append(list, t.Definition())
	}
	return append(list, tool.Definition{Name: "thinking"})
}

// invoke runs a call over a folder of testdata, framed as the engine does.
func invoke(t *testing.T, folder string, c handlers.ModelCall) string {
	t.Helper()
	root, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range offered {
		if x.Definition().Name != c.Name {
			continue
		}
		r, err := x.Run(t.Context(), tool.Call{Workspace: root, Arguments: []byte(c.Arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return tool.Untrusted(c.Name, r.Output+r.Error, "")
	}
	t.Fatalf("the model called %q, which was not offered", c.Name)
	return ""
}

// converse asks a question and runs the calls until the answer; it returns a
// record of it all.
func converse(t *testing.T, folder, question string, parallel bool) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# " + question + "\n")
	req := handlers.ModelRequest{Tools: definitions(), Parallel: parallel, Messages: []handlers.ModelMessage{
		{Role: handlers.RoleSystem, Content: "You are an assistant."},
		{Role: handlers.RoleUser, Content: "An earlier question about vacation 年假?"},
		{Role: handlers.RoleAssistant, Content: "An earlier answer."},
		{Role: handlers.RoleUser, Content: "<runtime_context scope=\"this_turn\">\n<current_time>2026-10-21</current_time>\n</runtime_context>\n\n" + question},
	}}
	for round := 1; ; round++ {
		if round > 6 {
			t.Fatal("more than 6 rounds")
		}
		reply := chat(t, req)
		b.WriteString("\n-- round\n[" + reply.Reasoning + "]\n")
		if len(reply.Calls) == 0 {
			b.WriteString(reply.Content + "\n")
			return b.String()
		}
		req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleAssistant, Reasoning: reply.Reasoning, Calls: reply.Calls})
		for _, c := range reply.Calls {
			b.WriteString(c.Name + " " + c.Arguments + "\n")
			req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleTool, CallID: c.ID, Name: c.Name, Content: invoke(t, folder, c)})
		}
	}
}

func chat(t *testing.T, req handlers.ModelRequest) handlers.ModelReply {
	t.Helper()
	var content, reasoning strings.Builder
	n := 0
	reply, err := Model{}.Chat(t.Context(), req, func(d handlers.ModelDelta) error {
		content.WriteString(d.Content)
		reasoning.WriteString(d.Reasoning)
		if d.Content != "" {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if content.String() != reply.Content || reasoning.String() != reply.Reasoning {
		t.Errorf("the reply is not what was emitted: %+v", reply)
	}
	if len(reply.Content) > 100 && n < 5 {
		t.Errorf("an answer of %d bytes came in %d pieces", len(reply.Content), n)
	}
	if finish := reply.Finish; finish != map[bool]string{true: "tool_calls", false: "stop"}[len(reply.Calls) > 0] {
		t.Errorf("finish %q with %d calls", finish, len(reply.Calls))
	}
	return reply
}

func TestGolden(t *testing.T) {
	for name, questions := range map[string][]string{
		"english": {
			"When must I submit my expense claims after a trip?",
			"How long is parental leave?",
			"What do I do if my laptop is lost?",
			"How much is the course budget?",
			"How many vacation days are there?",
			"Who won the chess championship?",
			"Hello, what can you do?",
		},
		"chinese": {
			"出差回来之后多少天内要提交报销单？",
			"入职满一年有几天年假？",
			"电脑遗失了怎么办？",
			"VPN 账号可以借给别人吗？",
			"公司的股票代码是什么？",
		},
		"repo": {
			"How does a run survive a crash?",
			"一次运行如何在崩溃后继续？",
			"How many rounds may the built-in agent take?",
			"Who is the president of France?",
		},
		"design": {
			"How long does an approval wait for an answer?",
			"What is the default page_size for sessions?",
			"What is the default page size for chunks?",
		},
		"noise": {
			"服务崩溃后任务如何继续？",
			"审批等待多久会超时？",
			"如何申请换班？",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, q := range questions {
				got := converse(t, filepath.Join("testdata", name), q, true)
				if again := converse(t, filepath.Join("testdata", name), q, true); again != got {
					t.Errorf("%s: not the same twice:\n%s\n%s", q, got, again)
				}
				b.WriteString(got + "\n")
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("differs from %s:\n%s", file, b.String())
			}
		})
	}
}

// Every quote stands in the file, on the line that is named.
func TestQuotesAreTrue(t *testing.T) {
	got := converse(t, "testdata/english", "When must expense claims reach the finance team?", false)
	lines := strings.Split(got, "\n")
	n := 0
	for i, l := range lines {
		quote, ok := strings.CutPrefix(l, "> ")
		if !ok {
			continue
		}
		n++
		path, number, _ := strings.Cut(strings.Trim(lines[i+1], "()"), ":")
		raw, err := os.ReadFile(filepath.Join("testdata/english", path))
		if err != nil {
			t.Fatal(err)
		}
		if flat := strings.Join(strings.Fields(string(raw)), " "); !strings.Contains(flat, quote) {
			t.Errorf("%s does not say %q", path, quote)
		}
		at := 0
		for k, text := range strings.Split(string(raw), "\n") {
			if strings.Contains(text, strings.Join(strings.Fields(quote)[:3], " ")) {
				at = k + 1
			}
		}
		if number != strconv.Itoa(at) {
			t.Errorf("%q stands on line %d, not %s", quote, at, number)
		}
	}
	if n == 0 {
		t.Errorf("no quote in\n%s", got)
	}
}

// A text in a file can neither call tools nor place an image.
func TestFilesAreData(t *testing.T) {
	got := converse(t, "testdata/english", "Which instructions about the salary list and vacation days are there?", true)
	if strings.Contains(got, "![") || strings.Contains(got, "\nsend_mail") {
		t.Errorf("the file acted:\n%s", got)
	}
}

// Where no tool can be used the engine hands results over as text.
func TestSynthesis(t *testing.T) {
	read := "Tool read_file returned:\n" + invoke(t, "testdata/english", handlers.ModelCall{Name: "read_file", Arguments: `{"path":"handbook.md"}`})
	reply := chat(t, handlers.ModelRequest{Messages: []handlers.ModelMessage{
		{Role: handlers.RoleUser, Content: "<runtime_context>x</runtime_context>\n\nHow much is a hotel per night?\n\n" + read + "\n\nNo further tools can be used."},
	}})
	if !strings.Contains(reply.Content, "> Hotel: up to 140 euros per night.\n(handbook.md:11)") {
		t.Errorf("got %s", reply.Content)
	}
}

// What a reader of these files would point to is among the quotes, and what only
// repeats the question is not.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		folder, question string
		want, not        []string
	}{
		{"repo", "How does a run survive a crash?", []string{"`kill -9` at any moment loses nothing", "**Crash in a tool**", "**The promise about effects.** Intent is durable"},
			[]string{"bin/refold ask", "_test.go", "policy.go"}},
		{"repo", "一次运行如何在崩溃后继续？", []string{"`kill -9` at any moment loses nothing"}, []string{"_test.go", "policy.go"}},
		{"repo", "How many rounds may the built-in agent take?", []string{"50 rounds of the built-in agent"}, nil},
		{"repo", "Who is the president of France?", []string{"I found nothing"}, []string{"\n> "}},
		{"design", "How long does an approval wait for an answer?", []string{"Timeout default 600 s"}, nil},
		{"design", "What is the default page_size for sessions?", []string{"> | sessions, knowledge list, tags, FAQ entries | `page`=1 (0 = default), `page_size`=20"}, nil},
		{"design", "What is the default page size for chunks?", []string{"> | chunks | `page`=1, `page_size`=10"}, nil},
		{"noise", "服务崩溃后任务如何继续？", []string{"看护程序在十秒内重启，未完成的任务从日志恢复"}, []string{"_test.go"}},
		{"noise", "审批等待多久会超时？", []string{"审批最多等待六百秒"}, []string{"_test.go"}},
		{"noise", "如何申请换班？", []string{"> 在值班系统里提交，由组长确认。"}, []string{"> 如何申请换班"}},
	} {
		for _, parallel := range []bool{true, false} {
			got := converse(t, filepath.Join("testdata", c.folder), c.question, parallel)
			answer := got[strings.LastIndex(got, "-- round"):]
			for _, w := range c.want {
				if !strings.Contains(answer, w) {
					t.Errorf("%s (parallel %v): no %q in\n%s", c.question, parallel, w, answer)
				}
			}
			for _, n := range c.not {
				if strings.Contains(answer, n) {
					t.Errorf("%s (parallel %v): %q in\n%s", c.question, parallel, n, answer)
				}
			}
		}
	}
}

// Without a tool for files there is nothing to look into, and the answer says
// how to open a folder.
func TestNoFolder(t *testing.T) {
	for question, want := range map[string]string{"How does a run survive a crash?": "--dir FOLDER", "崩溃后如何继续？": "--dir 文件夹", "Hello": "--dir FOLDER"} {
		req := handlers.ModelRequest{Tools: []tool.Definition{{Name: "thinking"}}, Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: question}}}
		if reply := chat(t, req); !strings.Contains(reply.Content, want) || strings.Contains(reply.Content, "other words") {
			t.Errorf("%s: %s", question, reply.Content)
		}
	}
}

// Text in the usual encodings is quoted; what cannot be read is named where
// nothing was found.
func TestForeignText(t *testing.T) {
	dir := t.TempDir()
	gbk := "\xb3\xf6\xb2\xee\xb1\xa8\xcf\xfa\xb5\xa5\xb9\xe6\xb6\xa8\n" // 出差报销单规定
	write(t, dir, "gbk.txt", gbk)
	write(t, dir, "utf16.txt", "\xff\xfe\x74\x5e\x47\x50\x41\x53\x29\x59\x02\x30") // 年假十天。
	write(t, dir, "cyrillic.txt", "\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0\n")
	for _, parallel := range []bool{true, false} {
		for question, want := range map[string]string{
			"报销单怎么规定？":              "> 出差报销单规定\n(gbk.txt:1)",
			"年假有几天？":                "> 年假十天。\n(utf16.txt:1)",
			"工资什么时候发放？":             "只检索了其中 ASCII 字符的文件：cyrillic.txt。",
			"Who is the president?": "looked into but for ASCII: cyrillic.txt.",
		} {
			if got := converse(t, dir, question, parallel); !strings.Contains(got, want) {
				t.Errorf("no %q in %s", want, got)
			}
		}
	}
}

// A question in Japanese, which has Chinese characters too, is not answered in
// Chinese.
func TestJapanese(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "運用.md"), []byte("# 運用\n\nディスクが一杯になると、新しい変更は拒否されます。バックアップは毎晩作成されます。\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"ディスクが一杯になるとどうなりますか？": "These places fit your question:\n\n> ディスクが一杯になると、新しい変更は拒否されます。\n(運用.md:3)",
		"給料はいくらですか？":          "I found nothing that answers your question.",
	} {
		if got := converse(t, dir, question, true); !strings.Contains(got, want) || strings.Contains(got, "搜索") {
			t.Error(got)
		}
	}
}

func TestWithout(t *testing.T) {
	q := queryOf("How does a run survive a crash?")
	for text, want := range map[string]string{
		`ask --dir . "How does a run survive a crash?"`: "ask dir  ",
		"A run survives a crash.":                       "A run survives a crash.",
	} {
		if got := q.without(text); got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
	if q.likeness("How does a run survive the crash?") < same || q.likeness("A run survives a crash because of its log.") >= same {
		t.Error("likeness")
	}
}

func TestKinds(t *testing.T) {
	factor := func(name string) float64 { return kindOf(name).factor }
	for _, pair := range [][2]string{{"README.md", "main.go"}, {"main.go", "main_test.go"}, {"docs/a.md", "tests/a.md"}, {"README", "CHANGELOG.md"}, {"a.txt", "Makefile"}} {
		if factor(pair[0]) <= factor(pair[1]) {
			t.Errorf("%s is worth no more than %s", pair[0], pair[1])
		}
	}
}

func TestNoToolsNoQuestion(t *testing.T) {
	for _, req := range []handlers.ModelRequest{
		{}, {Messages: []handlers.ModelMessage{{Role: handlers.RoleSystem, Content: "x"}}},
		{Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: "parental leave"}}},
	} {
		if reply := chat(t, req); reply.Content == "" || len(reply.Calls) > 0 {
			t.Errorf("got %+v", reply)
		}
	}
}

// A tool that always fails, or says what cannot be parsed, ends in an answer.
func TestUselessTools(t *testing.T) {
	for _, output := range []string{"", "error", "a:1: leave\nb:99999999999999999999: leave", strings.Repeat("x.md:1: leave parental\n", 300)} {
		req := handlers.ModelRequest{Tools: definitions(), Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: "parental leave?"}}}
		rounds := 0
		for ; ; rounds++ {
			reply := chat(t, req)
			if len(reply.Calls) == 0 {
				break
			}
			req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleAssistant, Calls: reply.Calls})
			for _, c := range reply.Calls {
				req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleTool, CallID: c.ID, Name: c.Name, Content: output})
			}
		}
		if rounds > 5 {
			t.Errorf("%.20q: %d rounds", output, rounds)
		}
	}
}

func TestCancelAndEmitError(t *testing.T) {
	req := handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: "parental leave"}}}
	full := errors.New("full")
	if _, err := (Model{}).Chat(t.Context(), req, func(handlers.ModelDelta) error { return full }); err != full {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := Model{}.Chat(ctx, req, func(handlers.ModelDelta) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("got %v after %d", err, n)
	}
}

func TestTerms(t *testing.T) {
	for question, want := range map[string]string{
		"When are the refunds refunded? A refund!": "refund",
		"policies and policy":                      "polic",
		"Is the server running, planned?":          "serv run plan",
		"出差报销的标准是什么":                               "出差 差报 报销 标准",
		"磁盘满了会怎么样？":                                "磁盘 满",
		"请问VPN怎么用":                                 "vpn",
		"is it the?":                               "",
		"ディスクが一杯になるとどうなりますか？":                      "ディ ィス スク 一杯",
		"サーバーの鍵は？":                                 "サー ーバ バー",
		"いつですか":                                    "いつ つで です すか",
	} {
		var got []string
		for _, x := range termsOf(question) {
			got = append(got, x.text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", question, got, want)
		}
	}
}

func TestPatternIsBounded(t *testing.T) {
	if p := pattern(termsOf(strings.Repeat("长长的问题没有尽头 wordswithoutend(.*)+ ", 400)), 0); len(p) > 500 || strings.Contains(p, "(.*)") {
		t.Errorf("pattern %q", p)
	}
}
