package api

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

var errNoFolder = invalid("workspace must be a folder that exists")

// workspace checks a folder that a request names.
func (a *API) workspace(r *http.Request, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if !filepath.IsAbs(dir) || len(dir) > 4096 || strings.ContainsRune(dir, 0) {
		return "", invalid("workspace must be an absolute path")
	}
	dir = filepath.Clean(dir)
	checked := func(dir string) (string, error) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return "", errNoFolder
		}
		return dir, nil
	}
	if a.LocalKey != "" && equal(r.Header.Get(LocalKeyHeader), a.LocalKey) {
		return checked(dir)
	}
	real, missing := filepath.EvalSymlinks(dir)
	for _, named := range a.Roots[tenant(r)] {
		root, err := filepath.EvalSymlinks(named)
		switch {
		case err != nil:
		case missing == nil && insideOf(root, real):
			return checked(real)
		case missing != nil && (insideOf(named, dir) || insideOf(root, dir)) && absent(root, dir):
			return "", errNoFolder
		}
	}
	return "", errWorkspace
}

// insideOf tells whether a path is a folder or lies below it, by their names.
func insideOf(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// absent tells whether a path that can't be resolved ends inside the root, where
// nothing has the name that comes next. What links lead to outside is not told.
func absent(root, path string) bool {
	for {
		above := filepath.Dir(path)
		if above == path {
			return false
		}
		if real, err := filepath.EvalSymlinks(above); err == nil {
			_, err = os.Lstat(filepath.Join(real, filepath.Base(path)))
			return insideOf(root, real) && errors.Is(err, fs.ErrNotExist)
		}
		path = above
	}
}
