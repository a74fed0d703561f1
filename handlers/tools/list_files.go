package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"refold/domain/tool"
)

// ListFilesName is the name of the tool that lists the workspace.
const ListFilesName = "list_files"

// ListFiles lists the files of the run's workspace.
type ListFiles struct{}

var listFilesDefinition = tool.Definition{
	Name:  ListFilesName,
	Title: "List files",
	Description: "List the files of the workspace with their sizes in bytes. Use it first, to see what there is; " +
		"to find text in files, search them instead. Hidden names, .git and node_modules are left out unless named as the path.",
	Effect: tool.ReadOnly, Untrusted: true,
	Schema: json.RawMessage(`{"type":"object","properties":{
"path":{"type":"string","description":"Directory, relative to the workspace; default: all of it."},
"recursive":{"type":"boolean","description":"Whether to go into subdirectories, default true. If false, they are listed with a slash at the end."},
"max_results":{"type":"integer","minimum":1,"maximum":1000,"description":"Default 200."}}}`),
}

// Definition implements tool.Tool.
func (ListFiles) Definition() tool.Definition { return listFilesDefinition }

type listedFile struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

type fileList struct {
	DisplayType string       `json:"display_type"`
	Path        string       `json:"path"`
	Count       int          `json:"count"`
	Truncated   bool         `json:"truncated"`
	Files       []listedFile `json:"files"`
}

var errEnough = errors.New("enough")

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// Run implements tool.Tool.
func (ListFiles) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	in := struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
		Max       int    `json:"max_results"`
	}{Recursive: true, Max: 200}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("list_files: " + err.Error()), nil
	}
	in.Max = min(max(in.Max, 1), 1000)
	w, err := openWorkspace(c)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	defer w.Close()
	dir, err := w.place(in.Path)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	f, info, dir, err := w.find(ctx, dir)
	if err != nil {
		return tool.Failed(w.explain(ctx, dir, err)), nil
	}
	f.Close()
	if !info.IsDir() {
		return tool.Failed(fmt.Sprintf("%q is a file of %d bytes, not a directory.", dir, info.Size())), nil
	}
	data := fileList{DisplayType: "file_list", Path: shown(dir), Files: []listedFile{}}
	var out strings.Builder
	x := walker{workspace: w, ctx: ctx, flat: !in.Recursive}
	lines := 0
	err = x.walk(dir, func(name string, info fs.FileInfo) error {
		if lines == in.Max {
			data.Truncated = true
			return errEnough
		}
		lines++
		if info.IsDir() {
			fmt.Fprintf(&out, "%s/\t-\n", shown(name))
			return nil
		}
		data.Count++
		file := listedFile{shown(name), info.Size()}
		data.Files = append(data.Files, file)
		fmt.Fprintf(&out, "%s\t%d\n", file.Path, file.Size)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return tool.Result{}, fmt.Errorf("list the workspace: %w", err)
	}
	fmt.Fprintf(&out, "[%d files", data.Count)
	if data.Truncated {
		out.WriteString("; more exist: give a path or raise max_results")
	}
	if x.cut {
		data.Truncated = true
		fmt.Fprintf(&out, "; stopped after %d entries: give a path", maxFiles)
	}
	if x.unread > 0 {
		fmt.Fprintf(&out, "; %d directories could not be read", x.unread)
	}
	out.WriteString("]")
	return answer(out.String(), data)
}
