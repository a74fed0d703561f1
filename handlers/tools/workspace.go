package tools

import (
	"bufio"
	"bytes"
	"context"
	binary16 "encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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

const (
	gbk     = "GBK/GB18030"
	utf16LE = "UTF-16LE"
	utf16BE = "UTF-16BE"
)

// encodingOf names the encoding of text that is not UTF-8, as far as its
// beginning tells; "" for UTF-8, for what is not text, and for what is unknown.
func encodingOf(head []byte) string {
	head = head[:min(len(head), sniff)]
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return "UTF-32"
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return utf16LE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return utf16BE
	case binary(head):
		return ""
	}
	pairs, common := 0, 0
	for i := 0; i < len(head); {
		switch b := head[i]; {
		case b < 0x80:
			i++
		case b == 0x80 || b == 0xFF:
			return ""
		case i+1 >= len(head): // cut
			i++
		case head[i+1] >= 0x30 && head[i+1] <= 0x39: // four bytes
			i += 4
			pairs++
		case head[i+1] < 0x40 || head[i+1] == 0x7F || head[i+1] == 0xFF:
			return ""
		default:
			pairs++
			// Where the common characters and the punctuation lie.
			if head[i+1] >= 0xA1 && (b >= 0xB0 && b <= 0xF7 || b >= 0xA1 && b <= 0xA3) {
				common++
			}
			i += 2
		}
	}
	if pairs < 2 || common*10 < pairs*7 || validStart(head) {
		return ""
	}
	return gbk
}

// validStart tells whether head is UTF-8, but for a character cut at its end.
func validStart(head []byte) bool {
	for range utf8.UTFMax - 1 {
		if utf8.Valid(head) {
			return true
		}
		if len(head) == 0 || len(head) < sniff-utf8.UTFMax {
			return false
		}
		head = head[:len(head)-1]
	}
	return utf8.Valid(head)
}

// unreadable tells of text in that encoding that the tools do not read it.
func unreadable(encoding string) bool { return encoding == gbk || encoding == "UTF-32" }

// utf16Reader turns UTF-16 that begins with its byte order mark into UTF-8.
type utf16Reader struct {
	r     *bufio.Reader
	order binary16.ByteOrder
	out   []byte
	err   error
}

func newUTF16Reader(r io.Reader, encoding string) io.Reader {
	u := &utf16Reader{r: bufio.NewReader(r), order: binary16.LittleEndian}
	if encoding == utf16BE {
		u.order = binary16.BigEndian
	}
	_, _ = u.r.Discard(2)
	return u
}

// Read implements io.Reader.
func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		u.fill()
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// fill decodes some characters. Halves that stand alone become U+FFFD, as does
// an odd byte at the end.
func (u *utf16Reader) fill() {
	u.out = u.out[:0]
	for len(u.out) < 4<<10 {
		pair, err := u.r.Peek(4)
		if len(pair) < 2 {
			if len(pair) == 1 {
				u.out = utf8.AppendRune(u.out, utf8.RuneError)
			}
			u.err = err
			return
		}
		c := rune(u.order.Uint16(pair))
		size := 2
		if utf16.IsSurrogate(c) {
			low := rune(0)
			if len(pair) == 4 {
				low = rune(u.order.Uint16(pair[2:]))
			}
			if c = utf16.DecodeRune(c, low); c != utf8.RuneError {
				size = 4
			}
		}
		_, _ = u.r.Discard(size)
		u.out = utf8.AppendRune(u.out, c)
	}
}

func binary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniff)], 0) >= 0 }
