package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"refold/infra/app"
	"refold/infra/parse"
)

// DocAdd adds documents.
type DocAdd struct {
	What   []string `arg:"" help:"Files, folders (with all below them) and addresses." name:"what"`
	KB     string   `help:"Knowledge base, by name or id." required:"" placeholder:"NAME" name:"kb"`
	Wait   bool     `help:"Wait until all of them can be found, or have failed."`
	Folder string   `help:"Folder of the knowledge base to put them into." placeholder:"PATH"`
	ModelFlags
}

// Help gives examples.
func (DocAdd) Help() string {
	return `Folders are walked; files that can't be read (images, archives, programs) are
skipped, which is said; hidden ones are left out. What is there already, byte for byte, costs nothing:
after an interruption the same command goes on. What could not be read before is
tried again. While a server starts again, the command waits for it.

Without a running server the documents are processed by this command, which waits
for that.

Exit codes: 0 all is well, 3 some files were refused or failed (the others are added).

Examples:
  refold doc add handbook.pdf prices.xlsx --kb Handbook
  refold doc add ./docs https://example.com/faq.html --kb Handbook --wait
  refold doc add ./docs --kb Handbook --wait --json | jq -r 'select(.error) | .path + ": " + .error'`
}

// source is a file or an address to add.
type source struct {
	path   string // or the address
	folder string
	url    bool
	skip   string // why it is not added, "" if it is
}

// outcome is what became of it.
type outcome struct {
	Path   string `json:"path"`
	Status string `json:"status"` // added, same, again (it had failed), skipped, refused; with --wait: completed, failed, cancelled
	ID     string `json:"id,omitempty"`
	Chunks int    `json:"chunk_count,omitempty"`
	Error  string `json:"error,omitempty"`
}

// sendsAtOnce is how many files are sent at the same time.
const sendsAtOnce = 4

// Run adds them.
func (d DocAdd) Run(e *env) error {
	sources, err := d.sources()
	if err != nil {
		return err
	}
	c := e.config
	if err := d.apply(&c); err != nil {
		return usage("%v", err)
	}
	c.Own = true
	l, err := e.connect(c)
	if err != nil {
		return err
	}
	a := &adder{env: e, link: l, bar: e.newBar("sent", len(sources)), wait: d.Wait || l.app != nil}
	if l.app != nil && !d.Wait {
		fmt.Fprintln(e.err, "No server runs on this record: the documents are processed now, by this command.")
	}
	return errors.Join(a.add(d.KB, sources), l.close())
}

// sources lists what is to be added.
func (d DocAdd) sources() ([]source, error) {
	types := (&parse.Parser{}).Types()
	folder := strings.Trim(d.Folder, "/")
	var out []source
	for _, what := range d.What {
		if strings.HasPrefix(what, "http://") || strings.HasPrefix(what, "https://") {
			out = append(out, source{path: what, folder: folder, url: true})
			continue
		}
		info, err := os.Stat(what)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, errors.Unwrap(err))
		case info.IsDir():
			found, err := walk(what, folder, types)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		default:
			out = append(out, source{path: what, folder: folder})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there are no files to add")
	}
	return out, nil
}

// walk lists the files below a folder in order. Hidden ones are left out.
func walk(dir, folder string, types []string) ([]source, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	var out []source
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, p)
		if relErr != nil {
			return relErr
		}
		hidden := rel != "." && strings.HasPrefix(filepath.Base(rel), ".")
		s := source{path: filepath.Join(dir, rel), folder: path.Join(folder, path.Dir(filepath.ToSlash(rel)))}
		if s.folder == "." {
			s.folder = ""
		}
		switch {
		case err != nil:
			s.skip = "it can't be read: " + err.Error()
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden:
			return nil
		case !entry.Type().IsRegular():
			s.skip = "it is no regular file"
		case !slices.Contains(types, strings.ToLower(strings.TrimPrefix(filepath.Ext(p), "."))):
			s.skip = "files of this type are not read"
		}
		out = append(out, s)
		return nil
	})
	return out, err
}

// adder adds sources to a base.
type adder struct {
	*env
	link *link
	base kbRow
	bar  *bar
	wait bool

	mu     sync.Mutex
	paths  map[string]string // by document, those to wait for
	failed int
}

func (a *adder) add(kb string, sources []source) error {
	var err error
	if a.base, err = a.findBase(a.link.client, kb); err != nil {
		return err
	}
	a.paths = map[string]string{}
	work := make(chan source)
	var workers sync.WaitGroup
	for range sendsAtOnce {
		workers.Go(func() {
			for s := range work {
				a.report(a.one(s))
			}
		})
	}
feed:
	for _, s := range sources {
		select {
		case work <- s:
		case <-a.ctx.Done():
			break feed
		}
	}
	close(work)
	workers.Wait()
	a.bar.end()
	if err = a.ctx.Err(); err == nil && a.wait {
		err = a.await()
	}
	if a.ctx.Err() != nil {
		fmt.Fprintln(a.err, "Interrupted. The same command goes on: what is there already is not processed again.")
		a.exit = ExitStopped
		return nil
	}
	if err == nil && a.failed > 0 {
		a.exit = ExitFailed
	}
	return err
}

// one adds one source.
func (a *adder) one(s source) outcome {
	out := outcome{Path: s.path, Status: "added"}
	if s.skip != "" {
		out.Status, out.Error = "skipped", s.skip
		return out
	}
	var row docRow
	err := a.patient(func(c *client) (err error) {
		row, err = c.send(a.ctx, a.base.ID, s)
		return err
	})
	var refused *apiError
	if errors.As(err, &refused) && refused.Same != "" {
		out.Status, out.ID, err = "same", refused.Same, nil
		if refused.State == "failed" {
			out.Status = "again"
			err = a.patient(func(c *client) error {
				return c.call(a.ctx, http.MethodPost, "/api/v1/knowledge/"+url.PathEscape(out.ID)+"/reparse", nil, nil)
			})
		}
	}
	switch {
	case err != nil:
		out.Status, out.Error = "refused", err.Error()
		return out
	case out.ID == "":
		out.ID = row.ID
	}
	a.mu.Lock()
	a.paths[out.ID] = s.path
	a.mu.Unlock()
	return out
}

// How long a server that does not answer is waited for.
const (
	patience  = 10 * time.Second
	lookAgain = 200 * time.Millisecond
)

// patient repeats what fails because the server is starting again, where it may be
// at another address by then. Nothing is done twice: what was added is the same.
func (a *adder) patient(f func(*client) error) error {
	ctx, cancel := context.WithTimeout(a.ctx, patience)
	defer cancel()
	for {
		a.mu.Lock()
		c := a.link.client
		a.mu.Unlock()
		err := f(c)
		var answered *apiError
		if err == nil || a.link.app != nil || errors.As(err, &answered) && answered.Status != http.StatusServiceUnavailable || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return err
		}
		if found, ok := app.FindServer(ctx, a.config.Data); ok {
			a.mu.Lock()
			a.link.client = &client{base: "http://" + found.Addr, key: found.LocalKey, tenant: a.cli.Tenant}
			a.mu.Unlock()
		}
	}
}

// report says what became of a source.
func (a *adder) report(o outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.Status == "refused" || o.Status == "failed" {
		if a.ctx.Err() != nil {
			return // it was cut short, not refused
		}
		a.failed++
	}
	a.bar.step(func() {
		switch {
		case a.cli.JSON:
			a.line(o)
		case o.Error != "":
			fmt.Fprintf(a.out, "%s  %s: %s\n", o.Status, plainText(o.Path), plainText(o.Error))
		case !a.bar.drawn() || o.Status == "failed":
			fmt.Fprintf(a.out, "%s  %s  %s\n", o.Status, o.ID, plainText(o.Path))
		}
	})
}
