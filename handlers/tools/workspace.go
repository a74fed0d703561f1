package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"refold/domain/tool"
)

// Bounds of one call on the workspace.
const (
	maxFiles   = 20000
	maxScan    = 256 << 20 // bytes
	maxFile    = 8 << 20   // bytes of a file that grep reads
	sniff      = 8 << 10   // bytes looked at for NUL
	maxLine    = 500       // runes of a line that are shown
	maxNesting = 64        // directories below each other
)

// workspace is the directory of a run. All access goes through os.Root, which
// resolves every component itself: "..", absolute paths and links that lead out
// are refused even if the tree changes at the same moment.
type workspace struct {
	root *os.Root
	dir  string
}

func openWorkspace(c tool.Call) (*workspace, error) {
	if c.Workspace == "" {
		return nil, errors.New("this run has no workspace: no directory was given to it, so there are no files to look at")
	}
	root, err := os.OpenRoot(c.Workspace)
	if err != nil {
		// The path is the operator's matter, not the model's.
		return nil, errors.New("the workspace of this run cannot be opened")
	}
	return &workspace{root, filepath.Clean(c.Workspace)}, nil
}

func (w *workspace) Close() error { return w.root.Close() }

// place turns a path from a model into one relative to the workspace.
func (w *workspace) place(p string) (string, error) {
	name := filepath.ToSlash(strings.TrimRight(p, "\r\n"))
	if strings.ContainsRune(name, 0) {
		return "", errors.New("a path cannot hold a NUL character")
	}
	if path.IsAbs(name) || filepath.IsAbs(name) {
		base := strings.TrimSuffix(filepath.ToSlash(w.dir), "/")
		rest, inside := strings.CutPrefix(name, base+"/")
		if !inside && name != base {
			return "", fmt.Errorf("%q is not in the workspace: give a path relative to the workspace, such as src/main.go", p)
		}
		name = rest
		if name == base {
			name = ""
		}
	}
	name = path.Clean("./" + name)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("%q is not in the workspace: paths cannot lead out of it", p)
	}
	return name, nil
}

// open opens a file or directory for reading. It never waits for the other side
// of a pipe.
func (w *workspace) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// find opens what a model names as it was shown to it: without the characters
// of a name that outputs replace or leave out. It gives the real name.
func (w *workspace) find(ctx context.Context, name string) (*os.File, fs.FileInfo, string, error) {
	f, info, err := w.open(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, info, name, err
	}
	var meant []string
	x := walker{workspace: w, ctx: ctx, dirs: true}
	look := visibly(name)
	if failed := x.walk(".", func(p string, _ fs.FileInfo) error {
		if p != name && visibly(p) == look {
			meant = append(meant, p)
		}
		return nil
	}); failed != nil || len(meant) == 0 {
		return nil, nil, name, err
	}
	if len(meant) > 1 {
		return nil, nil, name, fmt.Errorf("%d names look like this one, because they hold control or invisible characters; it cannot be told which is meant", len(meant))
	}
	f, info, err = w.open(meant[0])
	return f, info, meant[0], err
}

// visibly is what a model sees of a path.
func visibly(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, shown(name))
}

// explain words an error of open for the model.
func (w *workspace) explain(ctx context.Context, name string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text := fmt.Sprintf("There is no %q in the workspace.", name)
		if near := w.near(ctx, name); len(near) > 0 {
			text += " Did you mean: " + strings.Join(near, ", ") + "?"
		}
		return text
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%q may not be read.", name)
	case strings.Contains(err.Error(), "escapes"): // os does not export this error
		return fmt.Sprintf("%q leads out of the workspace through a link, so it cannot be opened.", name)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Sprintf("%q cannot be opened: %v.", name, err)
}

// near gives up to 3 paths that a wrong one may have meant: a file of the same
// name elsewhere, or a similar name where it was looked for.
func (w *workspace) near(ctx context.Context, name string) []string {
	var same, all []string
	base := path.Base(name)
	x := walker{workspace: w, ctx: ctx, dirs: true}
	if x.walk(".", func(p string, _ fs.FileInfo) error {
		all = append(all, p)
		if strings.EqualFold(path.Base(p), base) {
			same = append(same, p)
		}
		return nil
	}) != nil {
		return nil
	}
	slices.Sort(same)
	similar := tool.Nearest(base, siblings(all, path.Dir(name)))
	for i, s := range similar {
		similar[i] = path.Join(path.Dir(name), s)
	}
	for _, s := range append(similar, tool.Nearest(name, all[:min(len(all), 2000)])...) {
		same = add(same, s)
	}
	for i, s := range same {
		same[i] = shown(s)
	}
	return same[:min(3, len(same))]
}

func siblings(all []string, dir string) []string {
	var names []string
	for _, p := range all {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names
}

// walker visits what lies below a directory: sorted by name within each
// directory, without hidden names, node_modules, and links to directories.
type walker struct {
	*workspace
	ctx    context.Context
	flat   bool // only the directory itself, with its subdirectories
	dirs   bool // also visit directories, before what they hold
	bare   bool // files are visited without their info, which costs a call each
	seen   int
	cut    bool // more than maxFiles entries
	unread int  // directories that could not be read
}

func (x *walker) walk(dir string, visit func(name string, info fs.FileInfo) error) error {
	return x.descend(dir, 0, visit)
}

func (x *walker) descend(dir string, depth int, visit func(string, fs.FileInfo) error) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	f, info, err := x.open(dir)
	if err != nil || !info.IsDir() || depth > maxNesting {
		if err == nil {
			f.Close()
		}
		x.unread++
		return nil
	}
	left := maxFiles - x.seen
	entries, err := f.ReadDir(left + 1)
	f.Close()
	if len(entries) == 0 && err != nil && !isEOF(err) {
		x.unread++
		return nil
	}
	if len(entries) > left {
		entries, x.cut = entries[:left], true
	}
	x.seen += len(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" {
			continue
		}
		name := path.Join(dir, e.Name())
		linked := e.Type()&fs.ModeSymlink != 0
		if x.bare && e.Type().IsRegular() {
			if err := visit(name, nil); err != nil {
				return err
			}
			continue
		}
		if e.IsDir() && !x.dirs && !x.flat {
			if err := x.descend(name, depth+1, visit); err != nil {
				return err
			}
			continue
		}
		info, err := x.root.Stat(name) // follows links, within the workspace only
		if err != nil {
			continue
		}
		switch {
		case info.IsDir():
			if x.dirs || x.flat {
				if err := visit(name, info); err != nil {
					return err
				}
			}
			if !x.flat && !linked {
				if err := x.descend(name, depth+1, visit); err != nil {
					return err
				}
			}
		case info.Mode().IsRegular():
			if err := visit(name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// shown makes a path fit for one line of output.
func shown(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return unicode.ReplacementChar
		}
		return c
	}, strings.ToValidUTF8(name, "\uFFFD"))
}
