package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"refold/domain/tool"
)

// ReadFileName is the name of the tool that reads a file of the workspace.
const ReadFileName = "read_file"

// pageRunes is where a page ends early, so that it fits into a result whole.
const pageRunes = tool.DefaultOutput - 1000

// ReadFile shows lines of a file of the run's workspace. Files of any size are
// read, large ones as a stream. Without a decoder all is read as UTF-8.
type ReadFile struct{ Decode Decoder }

var readFileDefinition = tool.Definition{
	Name:  ReadFileName,
	Title: "Read a file",
	Description: "Show lines of a text file in the workspace, with their numbers. Use it after a search or a listing, to see a hit in full; " +
		"ask for the lines around the hit rather than for whole long files. The first line of the answer tells which lines of how many are shown.",
	Effect: tool.ReadOnly, Untrusted: true,
	Schema: json.RawMessage(`{"type":"object","properties":{
"path":{"type":"string","minLength":1,"description":"File, relative to the workspace."},
"offset":{"type":"integer","minimum":1,"description":"First line to show, counted from 1; default 1."},
"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"How many lines, default 200."}},
"required":["path"]}`),
}

// Definition implements tool.Tool.
func (ReadFile) Definition() tool.Definition { return readFileDefinition }

type fileContent struct {
	DisplayType string `json:"display_type"`
	Path        string `json:"path"`
	Start       int    `json:"start_line"`
	End         int    `json:"end_line"`
	Total       int    `json:"total_lines"`
	Truncated   bool   `json:"truncated"`
}

// Run implements tool.Tool.
func (t ReadFile) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	in := struct {
		Path   string `json:"path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}{Offset: 1, Limit: 200}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("read_file: " + err.Error()), nil
	}
	in.Offset, in.Limit = max(in.Offset, 1), min(max(in.Limit, 1), 2000)
	w, err := openWorkspace(c)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	defer w.Close()
	name, err := w.place(in.Path)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	f, info, name, err := w.find(ctx, name)
	if err != nil {
		return tool.Failed(w.explain(ctx, name, err)), nil
	}
	defer f.Close()
	if info.IsDir() {
		return tool.Failed(fmt.Sprintf("%q is a directory: list it, or give a file in it.", name)), nil
	}
	p := page{from: in.Offset, limit: in.Limit}
	r, encoding, how, err := t.Decode.open(ctx, f)
	if err != nil {
		return tool.Result{}, fmt.Errorf("read a file of the workspace: %w", err)
	}
	if how == noText {
		return tool.Failed(fmt.Sprintf("%q is a binary file of %d bytes: its content is not text.", name, info.Size())), nil
	}
	if err := p.read(ctx, bufio.NewReaderSize(r, 64<<10)); err != nil {
		return tool.Result{}, fmt.Errorf("read a file of the workspace: %w", err)
	}
	total := strconv.Itoa(p.total)
	if p.open {
		total += "+"
	}
	if len(p.lines) == 0 && p.total > 0 {
		return tool.Failed(fmt.Sprintf("%q has %s lines: line %d lies past its end.", name, total, in.Offset)), nil
	}
	data := fileContent{DisplayType: "file_content", Path: shown(name), Total: p.total}
	if len(p.lines) > 0 {
		data.Start, data.End = in.Offset, in.Offset+len(p.lines)-1
	}
	data.Truncated = data.End < p.total || p.open
	var out strings.Builder
	fmt.Fprintf(&out, "%s (lines %d-%d of %s)", data.Path, data.Start, data.End, total)
	width := max(4, len(strconv.Itoa(data.End)))
	for i, line := range p.lines {
		fmt.Fprintf(&out, "\n%*d| %s", width, data.Start+i, line)
	}
	if data.End < p.total {
		fmt.Fprintf(&out, "\n[more lines follow: go on with offset %d]", data.End+1)
	}
	switch how {
	case decodedText:
		fmt.Fprintf(&out, "\n[the text was read as %s]", encoding)
	case unknownText:
		out.WriteString("\n[the encoding of this text cannot be told: of what is not ASCII \uFFFD is shown]")
	}
	return answer(out.String(), data)
}

// page collects the wanted lines and counts all.
type page struct {
	from, limit int
	lines       []string
	size        int // runes collected
	total       int
	open        bool // stopped at the bound: there may be more lines
}

func (p *page) read(ctx context.Context, r *bufio.Reader) error {
	var line []byte // the beginning of the line, as much as may be shown
	var length int  // bytes of the whole line
	scanned := 0
	for {
		piece, err := r.ReadSlice('\n')
		scanned += len(piece)
		wanted := p.total+1 >= p.from && len(p.lines) < p.limit && p.size < pageRunes
		if wanted && len(line) < 4*maxLine+8 {
			line = append(line, piece[:min(len(piece), 4*maxLine+8-len(line))]...)
		}
		length += len(piece)
		switch {
		case err == nil || isEOF(err) && length > 0:
			if wanted {
				p.add(line, length)
			}
			p.total++
			line, length = line[:0], 0
		case err != nil && !isEOF(err) && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		if isEOF(err) {
			return nil
		}
		if scanned >= maxScan {
			p.open = true
			return nil
		}
		if p.total%1024 == 0 || errors.Is(err, bufio.ErrBufferFull) {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

func (p *page) add(line []byte, length int) {
	if bytes.HasSuffix(line, []byte("\n")) && length == len(line) {
		line, length = line[:len(line)-1], length-1
		if bytes.HasSuffix(line, []byte("\r")) {
			line, length = line[:len(line)-1], length-1
		}
	}
	end := 0
	for n := 0; n < maxLine && end < len(line); n++ {
		_, size := utf8.DecodeRune(line[end:])
		end += size
	}
	text := strings.ToValidUTF8(string(line[:end]), "\uFFFD")
	if end < length {
		text += fmt.Sprintf(" [… %d bytes]", length-end)
	}
	p.size += utf8.RuneCountInString(text) + 8
	p.lines = append(p.lines, text)
}
