package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"refold/domain/knowledge"
	"refold/projections"
)

// listDocuments lists the documents of a base, the newest first.
func (a *API) listDocuments(w http.ResponseWriter, r *http.Request) {
	q, page, err := query(r, projections.Library.ID(), projections.Order{Field: "created_at", Desc: true})
	var where []projections.Where
	var tags []string
	if err == nil {
		where, tags, err = documentFilter(r)
	}
	var b projections.BaseEntry
	if err == nil {
		b, err = a.loadBase(r, chi.URLParam(r, "base"))
	}
	if err == nil {
		err = a.fresh(r, projections.Library)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	q.Where = append(where, projections.Where{Field: "base", Op: "=", Value: b.ID}, projections.Where{Field: "faq", Op: "=", Value: false})
	p, err := a.taggedDocuments(r, q, tagIDs(b, tags))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	rows, err := documents[projections.DocumentEntry](p.Documents)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]documentJSON, len(rows))
	for i, d := range rows {
		out[i] = wireDocument(r, d, b)
	}
	list(w, out, page, q, p)
}

// documentFilter reads the filters of a list, tags apart.
func documentFilter(r *http.Request) (where []projections.Where, tags []string, err error) {
	v := r.URL.Query()
	equal := func(field, value string) {
		if value != "" {
			where = append(where, projections.Where{Field: field, Op: "=", Value: value})
		}
	}
	for _, name := range []string{"keyword", "file_type", "parse_status", "source"} {
		if value := v.Get(name); utf8.RuneCountInString(value) > maxKeyword || !utf8.ValidString(value) {
			return nil, nil, invalid(name + " has at most " + itoa(maxKeyword) + " characters")
		}
	}
	if keyword := strings.TrimSpace(v.Get("keyword")); keyword != "" {
		where = append(where, projections.Where{Field: "text", Op: "contains", Value: strings.ToLower(keyword)})
	}
	switch kind := strings.ToLower(strings.TrimPrefix(v.Get("file_type"), ".")); kind {
	case string(knowledge.OriginManual), string(knowledge.OriginURL): // the reference lists these as types of files
		equal("origin", kind)
	default:
		equal("file_type", kind)
	}
	equal("status", v.Get("parse_status"))
	switch from := v.Get("source"); knowledge.Origin(from) {
	case knowledge.OriginFile, knowledge.OriginURL, knowledge.OriginFileURL, knowledge.OriginManual:
		equal("origin", from)
	default:
		equal("channel", from)
	}
	for name, op := range map[string]string{"start_time": ">=", "end_time": "<="} {
		at, err := anyTime(r, name)
		if err != nil {
			return nil, nil, err
		}
		if !at.IsZero() {
			where = append(where, projections.Where{Field: "updated_at", Op: op, Value: at.UnixMicro()})
		}
	}
	below, err := yes(r, "folder_recursive", false)
	if err != nil {
		return nil, nil, err
	}
	if v.Has("folder_path") {
		folder, err := knowledge.PlainFolder(v.Get("folder_path"))
		if err != nil {
			return nil, nil, err
		}
		where = append(where, inFolder(folder, below)...)
	}
	for _, id := range strings.Split(v.Get("tag_ids"), ",") {
		if id = strings.TrimSpace(id); id != "" {
			tags = append(tags, id)
		}
	}
	if len(tags) > knowledge.MaxDocTags {
		return nil, nil, invalid("tag_ids names at most " + itoa(knowledge.MaxDocTags) + " tags")
	}
	return where, tags, nil
}

// inFolder selects the documents of a folder, or of all below it too.
func inFolder(folder string, below bool) []projections.Where {
	switch {
	case !below && folder == "":
		return []projections.Where{{Field: "folder", Op: "=", Value: ""}}
	case !below:
		return []projections.Where{{Field: "folder", Op: "=", Value: folder + "/"}}
	case folder == "":
		return nil
	}
	return []projections.Where{{Field: "folder", Op: ">=", Value: folder + "/"}, {Field: "folder", Op: "<", Value: folder + "0"}} // 0 follows /
}

// anyTime reads an optional time in one of three forms.
func anyTime(r *http.Request, name string) (time.Time, error) {
	raw := r.URL.Query().Get(name)
	for _, form := range []string{time.DateOnly, time.DateTime} {
		if t, err := time.Parse(form, raw); err == nil {
			return t, nil
		}
	}
	t, err := moment(r, name)
	if err != nil {
		err = invalid(name + " must be a time, for example 2026-01-31, 2026-01-31 08:00:00 or 2026-01-31T08:00:00Z")
	}
	return t, err
}

// tagIDs gives the ids of tags that are named by id or number; nil if none is
// named, and a list that nothing has if those that are named do not exist.
func tagIDs(b projections.BaseEntry, tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	out := []string{}
	for _, t := range b.Tags {
		if slices.Contains(tags, t.ID) || slices.Contains(tags, itoa64(t.Number)) {
			out = append(out, t.ID)
		}
	}
	return out
}

// taggedDocuments gives a page of the documents that carry any of the tags; nil =
// all. Rows with a tag have it between spaces in the index field tags.
func (a *API) taggedDocuments(r *http.Request, q projections.Query, tags []string) (projections.Page, error) {
	switch {
	case tags == nil:
		return a.Documents.Find(r.Context(), q)
	case len(tags) == 0:
		return projections.Page{}, nil
	case len(tags) == 1:
		q.Where = append(q.Where, carries(tags[0]))
		return a.Documents.Find(r.Context(), q)
	}
	// An index can't say "any of these": the lists are merged.
	seen := map[string]bool{}
	var all []projections.Document
	for _, tag := range tags {
		one := q
		one.Where = append(slices.Clone(q.Where), carries(tag))
		err := a.walk(r, one, func(d projections.Document) error {
			if !seen[d.ID] {
				seen[d.ID] = true
				all = append(all, d)
			}
			return nil
		})
		if err != nil {
			return projections.Page{}, err
		}
	}
	created := func(d projections.Document) int64 { at, _ := d.Index["created_at"].(int64); return at }
	slices.SortFunc(all, func(x, y projections.Document) int {
		if c := created(y) - created(x); c != 0 {
			return int(min(max(c, -1), 1))
		}
		return strings.Compare(x.ID, y.ID)
	})
	total := len(all)
	all = all[min(q.Offset, total):]
	return projections.Page{Documents: all[:min(len(all), q.Limit)], Total: total}, nil
}

func carries(tag string) projections.Where {
	return projections.Where{Field: "tags", Op: "contains", Value: " " + tag + " "}
}

// walk calls each for every document that a query finds, a page at a time.
func (a *API) walk(r *http.Request, q projections.Query, each func(projections.Document) error) error {
	q.Offset, q.Cursor, q.Limit, q.CountTotal = 0, "", maxPage, false
	for {
		p, err := a.Documents.Find(r.Context(), q)
		if err != nil {
			return err
		}
		for _, d := range p.Documents {
			if err := each(d); err != nil {
				return err
			}
		}
		if p.Next == "" {
			return nil
		}
		q.Cursor = p.Next
	}
}

// searchDocuments lists documents of all bases by title and file name.
func (a *API) searchDocuments(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	v := r.URL.Query()
	if err := bounded(bound{"keyword", v.Get("keyword"), maxKeyword}, bound{"query", v.Get("query"), maxKeyword}); err != nil {
		return 0, nil, err
	}
	keyword := cmp.Or(strings.TrimSpace(v.Get("keyword")), strings.TrimSpace(v.Get("query")))
	offset, err := number(r, "offset", 0, 0, maxOffset)
	if err != nil {
		return 0, nil, err
	}
	limit, err := number(r, "limit", 20, 0, maxPage)
	if err != nil {
		return 0, nil, err
	}
	recent, err := yes(r, "recent", false)
	switch {
	case err != nil:
		return 0, nil, err
	case keyword == "" && !recent:
		return 0, nil, invalid("keyword is required, unless recent=true asks for the newest")
	}
	if limit == 0 {
		limit = 20
	}
	q := projections.Query{Collection: projections.Library.ID(), Tenant: tenant(r), OrderBy: []projections.Order{{Field: "updated_at", Desc: true}}, Offset: offset, Limit: limit + 1, CountTotal: true,
		Where: []projections.Where{{Field: "faq", Op: "=", Value: false}}}
	if keyword != "" {
		q.Where = append(q.Where, projections.Where{Field: "text", Op: "contains", Value: strings.ToLower(keyword)})
	}
	// Clients send one type, or a list of which the first counts.
	kind, _, _ := strings.Cut(v.Get("file_types"), ",")
	if kind = strings.ToLower(strings.Trim(kind, " .")); kind != "" {
		q.Where = append(q.Where, projections.Where{Field: "file_type", Op: "=", Value: kind})
	}
	if err := a.fresh(r, projections.Library); err != nil {
		return 0, nil, err
	}
	p, err := a.Documents.Find(r.Context(), q)
	if err != nil {
		return 0, nil, err
	}
	more := len(p.Documents) > limit
	rows, err := documents[projections.DocumentEntry](p.Documents[:min(limit, len(p.Documents))])
	if err != nil {
		return 0, nil, err
	}
	out, err := a.showDocuments(r, rows)
	return http.StatusOK, body{"success": true, "data": out, "has_more": more, "total": p.Total}, err
}
