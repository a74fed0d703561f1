package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"

	"refold/domain/tool"
)

// GrepFilesName is the name of the tool that searches the workspace.
const GrepFilesName = "grep_files"

// GrepFiles searches the files of the run's workspace, line by line. Without a
// decoder, of text that is not UTF-8 only the ASCII is found.
type GrepFiles struct{ Decode Decoder }

var grepFilesDefinition = tool.Definition{
	Name:  GrepFilesName,
	Title: "Search files",
	Description: "Find the lines in the workspace's files that match a pattern. Use it to locate a word, a name or an error text; read the file around a hit afterwards. " +
		"A plain word or phrase is a valid pattern. Upper and lower case are the same unless the pattern begins with (?-i). " +
		"Try several wordings when nothing is found.",
	Effect: tool.ReadOnly, Untrusted: true,
	Schema: json.RawMessage(`{"type":"object","properties":{
"pattern":{"type":"string","minLength":1,"description":"Regular expression (RE2) for one line, at most 500 bytes."},
"path":{"type":"string","description":"File or directory, relative to the workspace; default: all of it."},
"glob":{"type":"string","maxLength":200,"description":"Only files whose name matches, such as *.go or docs/**/*.md."},
"max_results":{"type":"integer","minimum":1,"maximum":200,"description":"Default 50."},
"context_lines":{"type":"integer","minimum":0,"maximum":3,"description":"Lines to show before and after each hit, default 0."}},
"required":["pattern"]}`),
}

// Definition implements tool.Tool.
func (GrepFiles) Definition() tool.Definition { return grepFilesDefinition }

type matchedFile struct {
	Path  string `json:"path"`
	Lines []int  `json:"lines"`
}

type fileMatches struct {
	DisplayType string        `json:"display_type"`
	Pattern     string        `json:"pattern"`
	Path        string        `json:"path"`
	Matches     int           `json:"match_count"`
	FileCount   int           `json:"file_count"`
	Truncated   bool          `json:"truncated"`
	Files       []matchedFile `json:"files"`
}

// Run implements tool.Tool.
func (t GrepFiles) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	in := struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
		Glob    string `json:"glob"`
		Max     int    `json:"max_results"`
		Context int    `json:"context_lines"`
	}{Max: 50}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("grep_files: " + err.Error()), nil
	}
	pattern, err := compile(in.Pattern)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	glob, err := compileGlob(in.Glob)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	w, err := openWorkspace(c)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	defer w.Close()
	start, err := w.place(in.Path)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	f, info, start, err := w.find(ctx, start)
	if err != nil {
		return tool.Failed(w.explain(ctx, start, err)), nil
	}
	f.Close()
	g := grep{workspace: w, decode: t.Decode, ctx: ctx, pattern: pattern, literals: literalsOf(in.Pattern), max: min(max(in.Max, 1), 200), around: min(max(in.Context, 0), 3),
		data: fileMatches{DisplayType: "file_matches", Pattern: in.Pattern, Path: shown(start), Files: []matchedFile{}}}
	x := walker{workspace: w, ctx: ctx, bare: true}
	visit := func(name string, _ fs.FileInfo) error {
		if glob != nil && !glob.MatchString(name) {
			return nil
		}
		return g.file(name)
	}
	if info.IsDir() {
		err = x.walk(start, visit)
	} else {
		err = visit(start, nil)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return tool.Result{}, fmt.Errorf("search the workspace: %w", err)
	}
	if x.cut {
		g.note("stopped after %d entries: give a path", maxFiles)
		g.data.Truncated = true
	}
	if x.unread > 0 {
		g.note("%d directories could not be read", x.unread)
	}
	return answer(g.summary(), g.data)
}

type grep struct {
	*workspace
	decode                 Decoder
	ctx                    context.Context
	pattern                *regexp.Regexp
	literals               literals
	content                bytes.Buffer // of the file at hand
	max, around            int
	scanned                int64
	binary, large, refused int
	unknown                []string // text in an encoding that cannot be told
	notes                  []string
	data                   fileMatches
	out                    strings.Builder
}

func (g *grep) note(format string, a ...any) { g.notes = append(g.notes, fmt.Sprintf(format, a...)) }

func (g *grep) summary() string {
	for _, n := range []struct {
		count int
		what  string
	}{{g.binary, "binary"}, {g.large, "larger than 8 MiB"}, {g.refused, "unreadable"}} {
		if n.count > 0 {
			g.note("%d files left out as %s", n.count, n.what)
		}
	}
	if n := len(g.unknown); n > 0 {
		g.note("%d files in an encoding that cannot be told, so only their ASCII was searched: %s", n, strings.Join(g.unknown[:min(n, 3)], ", "))
	}
	fmt.Fprintf(&g.out, "[%d matches in %d files", g.data.Matches, g.data.FileCount)
	for _, n := range g.notes {
		g.out.WriteString("; " + n)
	}
	g.out.WriteString("]")
	return g.out.String()
}

func (g *grep) file(name string) error {
	if err := g.ctx.Err(); err != nil {
		return err
	}
	f, info, err := g.open(name)
	if err != nil {
		g.refused++
		return nil
	}
	defer f.Close()
	if info.Size() > maxFile {
		g.large++
		return nil
	}
	g.content.Reset()
	_, err = g.content.ReadFrom(io.LimitReader(f, sniff))
	if head := g.content.Bytes(); err == nil && (!binary(head) || wide(head)) {
		g.content.Grow(int(info.Size()))
		_, err = g.content.ReadFrom(io.LimitReader(f, maxFile+1-sniff))
	}
	content := g.content.Bytes()
	g.scanned += int64(len(content))
	switch {
	case err != nil:
		g.refused++
		return nil
	case len(content) > maxFile:
		g.large++
		return nil
	}
	text, _, how := g.decode.text(content)
	switch how {
	case noText:
		g.binary++
		return nil
	case unknownText:
		g.unknown = append(g.unknown, shown(name))
	}
	var low []byte // nil if each line is to be matched
	if g.literals != nil && !foldable(text) {
		if low = lowered(text); !g.literals.in(low) {
			text = nil
		}
	}
	if err := g.lines(name, text, low); err != nil {
		return err
	}
	if g.scanned > maxScan {
		g.data.Truncated = true
		g.note("stopped after 256 MiB: give a path or a glob")
		return errEnough
	}
	return nil
}

// lines matches one file, of which low is the content lowered. Of a line only the
// first 64 KiB count, so that a pattern's cost between two looks at the context is
// bounded.
func (g *grep) lines(name string, content, low []byte) error {
	const counted = 64 << 10
	var before [][]byte // the lines just passed, at most g.around
	var hits []int
	shownUpTo, after := 0, 0 // last line written; context lines still owed
	label := shown(name)
	all := len(content)
	for n := 1; len(content) > 0; n++ {
		start := all - len(content)
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		if n%1024 == 0 || len(line) > counted/8 {
			if err := g.ctx.Err(); err != nil {
				return err
			}
		}
		var at []int
		if low == nil || g.literals.in(low[start:start+len(line)]) {
			at = g.pattern.FindIndex(line[:min(len(line), counted)])
		}
		switch {
		case at != nil && g.data.Matches == g.max:
			g.data.Truncated = true
			g.note("more exist: narrow the pattern or the path, or raise max_results")
			g.record(label, hits)
			return errEnough
		case at != nil:
			if g.around > 0 && (g.data.Matches > 0) && (shownUpTo == 0 || n-len(before) > shownUpTo+1) {
				g.out.WriteString("--\n")
			}
			for i, b := range before {
				fmt.Fprintf(&g.out, "%s-%d- %s\n", label, n-len(before)+i, cutLine(b, 0))
			}
			fmt.Fprintf(&g.out, "%s:%d: %s\n", label, n, cutLine(line, at[0]))
			g.data.Matches++
			hits = append(hits, n)
			before, after, shownUpTo = before[:0], g.around, n
		case after > 0:
			fmt.Fprintf(&g.out, "%s-%d- %s\n", label, n, cutLine(line, 0))
			after, shownUpTo = after-1, n
		case g.around > 0:
			if len(before) == g.around {
				before = append(before[:0], before[1:]...)
			}
			before = append(before, line)
		}
	}
	g.record(label, hits)
	return nil
}

func (g *grep) record(label string, hits []int) {
	if len(hits) > 0 {
		g.data.FileCount++
		g.data.Files = append(g.data.Files, matchedFile{label, hits})
	}
}

// cutLine shows at most 500 runes of a line, around the byte offset at, and
// says how many bytes it leaves out on each side.
func cutLine(line []byte, at int) string {
	if len(line) <= maxLine || utf8.RuneCount(line) <= maxLine {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	start := 0
	if utf8.RuneCount(line[:at]) > maxLine/2 {
		start = at
		for n := 0; n < maxLine/5 && start > 0; n++ {
			_, size := utf8.DecodeLastRune(line[:start])
			start -= size
		}
	}
	end := start
	for n := 0; n < maxLine && end < len(line); n++ {
		_, size := utf8.DecodeRune(line[end:])
		end += size
	}
	text := strings.ToValidUTF8(string(line[start:end]), "\uFFFD")
	if start > 0 {
		text = fmt.Sprintf("[%d bytes …] ", start) + text
	}
	if end < len(line) {
		text += fmt.Sprintf(" [… %d bytes]", len(line)-end)
	}
	return text
}
