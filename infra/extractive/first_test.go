package extractive

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is quoted first, over a project of the usual kind: a README with a table
// and a copy of it, guides, a change log, code and its test.
func TestFirst(t *testing.T) {
	for _, c := range []struct{ question, first, place string }{
		{"How does an order survive a power cut?", "So a power cut at any moment loses nothing", "README.md:4"},
		{"What happens when the disk is full?", "The server takes no more changes and answers 503", "docs/operations.md:13"},
		{"How do I restore a backup?", "To restore a backup, stop the server", "docs/operations.md:8"},
		{"How long are backups kept?", "Backups are kept for 30 days", "docs/operations.md:5"},
		{"What do I do with a lost key?", "A lost key can't be shown again: revoke it", "docs/operations.md:18"},
		{"Can an administrator read keys?", "Keys are stored as hashes", "docs/operations.md:18"},
		{"On which port does the server listen?", "The server listens on port 7070", "README.md:12"},
		{"How do I reach it from other machines?", "To reach it from other machines, give `--addr", "README.md:12"},
		{"What happens to an order that nobody confirms?", "An order that nobody confirms within 48 hours is cancelled", "README.md:17"},
		{"Can a confirmed order be changed?", "A confirmed order can't be changed", "README.md:18"},
		{"How many ingredients may a recipe have?", "A recipe has at most 200 ingredients.", "docs/limits.txt:3"},
		{"What is the default rate?", "| `--rate` | 50/s |", "docs/operations.md:27"},
		{"How do I upgrade?", "Read the change log, make a backup, replace the binary", "docs/operations.md:33"},
		{"Where do the logs go?", "Logs go to standard error as JSON.", "docs/operations.md:23"},
		{"When is the journal compacted?", "Compact rewrites the journal", "src/journal.go:8"},
		{"Which library is for reports?", "| `excel` | reports |", "README.md:28"},
		{"磁盘写满了会怎么样？", "磁盘写满后，系统拒绝新的写入", "docs/运维手册.md:10"},
		{"断电之后数据会丢失吗？", "断电不会丢失数据", "docs/运维手册.md:14"},
		{"如何恢复备份？", "恢复备份时先停止服务", "docs/运维手册.md:5"},
		{"备份什么时候进行？", "备份每天凌晨两点自动进行，保留三十天", "docs/运维手册.md:5"},
		{"密钥遗失怎么办？", "密钥遗失后无法找回", "docs/运维手册.md:24"},
		{"订单多久不确认会自动取消？", "供应商四十八小时内未确认的订单自动取消", "docs/运维手册.md:28"},
		{"忘记密码怎么办？", "答：在登录页点击“找回密码”", "docs/常见问题.txt:2"},
		{"服务监听哪个端口？", "| 端口 | 7070 |", "docs/运维手册.md:20"},
		{"菜单可以提前多久发布？", "答：菜单最多可以提前四周发布。", "docs/常见问题.txt:8"},
	} {
		for _, parallel := range []bool{true, false} {
			got := converse(t, "testdata/first", c.question, parallel)
			answer := got[strings.LastIndex(got, "-- round"):]
			m := firstQuote.FindStringSubmatch(answer)
			if m == nil || !strings.HasPrefix(m[1], c.first) || m[2] != c.place {
				t.Errorf("%s (parallel %v): not first: %q (%s) in\n%s", c.question, parallel, c.first, c.place, answer)
			}
			if strings.Contains(answer, "handbook/pages") {
				t.Errorf("%s: the copy is quoted:\n%s", c.question, answer)
			}
		}
	}
}

var firstQuote = regexp.MustCompile(`(?m)^> (.*)\n\((.*)\)$`)

// What two files say in the same words is quoted once, from the shorter path,
// but from a sample only if nothing else says it.
func TestSaidOnce(t *testing.T) {
	const said = "The boiler is emptied every third Sunday by the janitor."
	for _, c := range []struct{ a, b, want string }{
		{"a/copies/of/it.md", "z.md", "z.md"},
		{"notes.txt", "a/notes.txt", "notes.txt"},
		{"testdata/x.md", "guide/for/janitors/heating.md", "guide/for/janitors/heating.md"},
	} {
		dir := t.TempDir()
		write(t, dir, c.a, "# Heating\n\nAsk first. "+said+"\n")
		write(t, dir, c.b, "House rules\n\n**"+strings.TrimSuffix(said, ".")+"**. Ask first.\n")
		got := converse(t, dir, "When is the boiler emptied?", true)
		answer := got[strings.LastIndex(got, "-- round"):]
		if strings.Count(answer, "boiler") != 1 || !strings.Contains(answer, "("+c.want+":3)") {
			t.Errorf("%s, %s: %s", c.a, c.b, answer)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The code of a test says nothing about the thing itself; who asks about tests
// gets it.
func TestCodeOfTests(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "backup_test.go", "package x\n\nfunc TestBackup(t *testing.T) { ask(\"When are backups made at night?\", \"backups are made at two\") }\n")
	for question, want := range map[string]string{
		"When are backups made?":       "I found nothing",
		"Which test is about backups?": "> func TestBackup(t *testing.T)",
	} {
		if got := converse(t, dir, question, true); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
