package api

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// tagJSON is a tag on the wire. The counts are in lists.
type tagJSON struct {
	ID        string    `json:"id"`
	Number    int64     `json:"seq_id"`
	TenantID  int64     `json:"tenant_id"`
	Base      string    `json:"knowledge_base_id"`
	Name      string    `json:"name"`
	Color     string    `json:"color"`
	Order     int       `json:"sort_order"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

type countedTagJSON struct {
	tagJSON
	Documents int `json:"knowledge_count"`
	Chunks    int `json:"chunk_count"`
}

func wireTag(r *http.Request, base string, t projections.TagEntry) tagJSON {
	return tagJSON{ID: t.ID, Number: t.Number, TenantID: tenantNumber(r), Base: base, Name: t.Name, Color: t.Color, Order: t.Order, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
}

func (a *API) listTags(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	page, size, _, err := paging(r)
	if err != nil {
		return 0, nil, err
	}
	b, err := a.loadBase(r, chi.URLParam(r, "base"))
	if err != nil {
		return 0, nil, err
	}
	keyword := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("keyword")))
	out := []countedTagJSON{}
	for _, t := range b.Tags {
		if strings.Contains(strings.ToLower(t.Name), keyword) {
			out = append(out, countedTagJSON{wireTag(r, b.ID, t), t.Documents, t.Chunks})
		}
	}
	slices.SortStableFunc(out, func(x, y countedTagJSON) int { return cmp.Compare(x.Order, y.Order) })
	total := len(out)
	out = out[min((page-1)*size, total):]
	return http.StatusOK, nested(out[:min(size, len(out))], page, size, total), nil
}

type tagBody struct {
	Name  *string `json:"name"`
	Color *string `json:"color"`
	Order *int32  `json:"sort_order"`
}

// colors are the forms of a color: printable ASCII, single blanks in between.
var colors = regexp.MustCompile(`^([!-~]+( [!-~]+)*)?$`)

func (b tagBody) check() error {
	if !colors.MatchString(textOf(b.Color)) {
		return invalid("color is printable ASCII, for example #3b82f6")
	}
	return bounded(bound{"name", textOf(b.Name), knowledge.MaxTagName}, bound{"color", textOf(b.Color), knowledge.MaxColor})
}

// order is the place among the tags, nil if it is not named.
func (b tagBody) order() *int {
	if b.Order == nil {
		return nil
	}
	n := int(*b.Order)
	return &n
}

func (a *API) createTag(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b tagBody
	err := decode(w, r, maxBody, &b)
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return 0, nil, err
	}
	order := 0
	if n := b.order(); n != nil {
		order = *n
	}
	t, pos, err := a.Commands.CreateTag(r.Context(), caller(r), chi.URLParam(r, "base"), textOf(b.Name), textOf(b.Color), order)
	if err != nil {
		return 0, nil, err
	}
	return a.answerTag(w, r, t.ID, pos)
}

func (a *API) answerTag(w http.ResponseWriter, r *http.Request, id string, pos event.Position) (int, any, error) {
	positionHeader(w, pos)
	b, err := a.loadBase(r, chi.URLParam(r, "base"))
	if err != nil {
		return 0, nil, err
	}
	t, found := tagOf(b, id)
	if !found {
		return 0, nil, knowledge.ErrNoTag
	}
	return http.StatusOK, ok(wireTag(r, b.ID, t)), nil
}

// tagOf finds a tag by id or number.
func tagOf(b projections.BaseEntry, id string) (projections.TagEntry, bool) {
	i := slices.IndexFunc(b.Tags, func(t projections.TagEntry) bool { return t.ID == id || itoa64(t.Number) == id })
	if i < 0 {
		return projections.TagEntry{}, false
	}
	return b.Tags[i], true
}

func (a *API) updateTag(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b tagBody
	err := decode(w, r, maxBody, &b)
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return 0, nil, err
	}
	tag := chi.URLParam(r, "tag")
	pos, err := a.Commands.ChangeTag(r.Context(), caller(r), chi.URLParam(r, "base"), tag, commands.TagChange{Name: b.Name, Color: b.Color, Order: b.order()})
	if err != nil {
		return 0, nil, err
	}
	return a.answerTag(w, r, tag, pos)
}

var errTagInUse = domain.Reject(domain.Conflict, "tag_in_use", "documents carry this tag; with ?force=true they lose it, with ?content_only=true they are deleted and the tag stays")

// deleteTag deletes a tag that nothing carries, or takes it away from what does
// (force), or deletes what carries it and keeps the tag (content_only).
func (a *API) deleteTag(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Exclude []int64 `json:"exclude_ids"` // FAQ entries
	}
	err := decode(w, r, maxBody, &in)
	if err == nil {
		err = boundedNumbers("exclude_ids", in.Exclude, maxEntries)
	}
	if err != nil {
		return 0, nil, err
	}
	contentOnly, err := yes(r, "content_only", false)
	if err != nil {
		return 0, nil, err
	}
	force, err := yes(r, "force", false)
	if err != nil {
		return 0, nil, err
	}
	b, err := a.loadBase(r, chi.URLParam(r, "base"))
	if err != nil {
		return 0, nil, err
	}
	t, found := tagOf(b, chi.URLParam(r, "tag"))
	if !found {
		return 0, nil, knowledge.ErrNoTag
	}
	if contentOnly {
		spare := map[string]bool{}
		for _, n := range in.Exclude {
			spare[knowledge.EntryID(b.ID, n)] = true
		}
		_, err := a.deleteAll(r, []projections.Where{{Field: "base", Op: "=", Value: b.ID}, carries(t.ID)}, func(id string) bool { return !spare[id] })
		return http.StatusOK, done("What carries the tag is deleted"), err
	}
	if t.Documents > 0 && !force {
		return 0, nil, errTagInUse
	}
	pos, err := a.Commands.DeleteTag(r.Context(), caller(r), b.ID, t.ID)
	positionHeader(w, pos)
	return http.StatusOK, done("Tag deleted"), err
}

// deleteAll deletes the documents of the library that a query finds and want
// wants, and says how many.
func (a *API) deleteAll(r *http.Request, where []projections.Where, want func(id string) bool) (int, error) {
	if err := a.fresh(r, projections.Library); err != nil {
		return 0, err
	}
	var ids []string
	err := a.walk(r, projections.Query{Collection: projections.Library.ID(), Tenant: tenant(r), Where: where}, func(d projections.Document) error {
		if want == nil || want(d.ID) {
			ids = append(ids, d.ID)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return a.deleteDocuments(r, ids)
}
