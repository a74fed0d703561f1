package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/knowledge"
	"refold/projections"
)

// folderJSON is a folder with those in it.
type folderJSON struct {
	Path     string        `json:"path"`
	Name     string        `json:"name"`
	Count    int           `json:"document_count"` // directly in it
	Total    int           `json:"total_count"`    // with all below it
	Children []*folderJSON `json:"children,omitempty"`
}

// listFolders shows the folders of a base as a tree.
func (a *API) listFolders(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	b, err := a.loadBase(r, chi.URLParam(r, "base"))
	if err != nil {
		return 0, nil, err
	}
	docs, err := a.Documents.Get(r.Context(), projections.Key{Collection: projections.Bases.ID() + "." + projections.FolderCollection, Tenant: tenant(r), ID: b.ID})
	if err != nil {
		return 0, nil, err
	}
	rows, err := documents[projections.Folders](docs)
	if err != nil {
		return 0, nil, err
	}
	counts := map[string]int{}
	if len(rows) > 0 {
		counts = rows[0].Documents
	}
	return http.StatusOK, ok(tree(counts)), nil
}

// tree makes folders of the counts of paths.
func tree(counts map[string]int) body {
	total := counts[""]
	top := &folderJSON{Children: []*folderJSON{}}
	known := map[string]*folderJSON{"": top}
	var folder func(path string) *folderJSON
	folder = func(path string) *folderJSON {
		if f := known[path]; f != nil {
			return f
		}
		above, name := "", path
		if i := strings.LastIndex(path, "/"); i >= 0 {
			above, name = path[:i], path[i+1:]
		}
		f := &folderJSON{Path: path, Name: name}
		known[path] = f
		parent := folder(above)
		parent.Children = append(parent.Children, f)
		return f
	}
	paths := make([]string, 0, len(counts))
	for path := range counts {
		if path != "" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		n := counts[path]
		total += n
		folder(path).Count = n
		for at := path; at != ""; {
			known[at].Total += n
			at = at[:max(strings.LastIndex(at, "/"), 0)]
		}
	}
	return body{"root_document_count": counts[""], "total_document_count": total, "folders": top.Children}
}

// maxMoved bounds how many documents one request puts into another folder.
const maxMoved = 10_000

// renameFolder puts all documents of a folder, and those below it, into another
// one.
func (a *API) renameFolder(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct{ From, To string }
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	from, err := knowledge.PlainFolder(b.From)
	if err != nil {
		return 0, nil, err
	}
	to, err := knowledge.PlainFolder(b.To)
	switch {
	case err != nil:
		return 0, nil, err
	case from == "":
		return 0, nil, invalid("from is required: the folder to rename")
	case strings.HasPrefix(to+"/", from+"/") && to != from:
		return 0, nil, invalid("a folder can't be put into itself")
	}
	id := chi.URLParam(r, "base")
	if _, err := a.Commands.Base(r.Context(), tenant(r), id); err != nil {
		return 0, nil, err
	}
	if err := a.fresh(r, projections.Library); err != nil {
		return 0, nil, err
	}
	moves := map[string]string{}
	where := append(inFolder(from, true), projections.Where{Field: "base", Op: "=", Value: id})
	err = a.walk(r, projections.Query{Collection: projections.Library.ID(), Tenant: tenant(r), Where: where}, func(d projections.Document) error {
		now, _ := d.Index["folder"].(string)
		moves[d.ID] = strings.Trim(to+"/"+strings.TrimPrefix(now, from+"/"), "/")
		if len(moves) > maxMoved {
			return invalid("the folder holds more than " + itoa(maxMoved) + " documents; rename the folders in it first")
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	n, err := a.move(r, moves)
	return http.StatusOK, ok(body{"moved_count": n, "folder_path": to}), err
}

// move puts documents into folders and says how many.
func (a *API) move(r *http.Request, folders map[string]string) (int, error) {
	n := 0
	for id, folder := range folders {
		switch _, err := a.Commands.ChangeDocument(r.Context(), caller(r), id, commands.DocumentChange{Folder: &folder}); {
		case err == nil:
			n++
		case !errors.Is(err, knowledge.ErrNoDocument):
			return n, err
		}
	}
	return n, nil
}

// moveToFolder puts documents into a folder.
func (a *API) moveToFolder(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b batchBody
	ids, err := a.batch(w, r, "knowledge_ids", &b)
	if err != nil {
		return 0, nil, err
	}
	folder, err := knowledge.PlainFolder(b.Folder)
	if err != nil {
		return 0, nil, err
	}
	moves := map[string]string{}
	for _, id := range ids {
		moves[id] = folder
	}
	n, err := a.move(r, moves)
	return http.StatusOK, ok(body{"moved_count": n, "folder_path": folder}), err
}
