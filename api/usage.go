package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"refold/domain/run"
	"refold/projections"
)

// maxUsageRows bounds what one answer adds up, in rows of the view: one for each
// run, session or model on each day.
const maxUsageRows = 20_000

// usageDays is how far back usage is shown unless from says otherwise.
const usageDays = 30

// spentJSON is one line of the answer.
type spentJSON struct {
	Key   string    `json:"key"`
	Calls int       `json:"calls"`
	Usage run.Usage `json:"usage"`
}

// usage adds up tokens from one day to another, both included, in UTC, by run,
// session, day (the default) or model. Every way adds up to the same total.
func (a *API) usage(w http.ResponseWriter, r *http.Request) {
	by := cmp.Or(r.URL.Query().Get("by"), "day")
	from, err := day(r, "from", time.Now().UTC().AddDate(0, 0, 1-usageDays))
	var to string
	if err == nil {
		to, err = day(r, "to", time.Now().UTC())
	}
	collection := projections.Usage.ID()
	switch by {
	case "day", "model":
	case "run":
		collection += "." + projections.UsageByRun
	case "session":
		collection += "." + projections.UsageBySession
	default:
		err = cmp.Or(err, invalid(`by must be "run", "session", "day" or "model"`))
	}
	if err == nil && from > to {
		err = invalid("from must not be after to")
	}
	if err == nil {
		err = a.fresh(r, projections.Usage)
	}
	var rows []projections.Spent
	if err == nil {
		rows, err = a.spent(r, collection, from, to)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	lines := map[string]*spentJSON{}
	total := spentJSON{}
	for _, s := range rows {
		key := s.Key
		if by == "day" {
			key = s.Day
		}
		if lines[key] == nil {
			lines[key] = &spentJSON{Key: key}
		}
		for _, l := range []*spentJSON{lines[key], &total} {
			l.Calls += s.Calls
			l.Usage = l.Usage.Add(s.Usage)
		}
	}
	out := make([]spentJSON, 0, len(lines))
	for _, l := range lines {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(x, y spentJSON) int {
		if by == "day" {
			return strings.Compare(x.Key, y.Key)
		}
		return cmp.Or(cmp.Compare(y.Usage.Total, x.Usage.Total), strings.Compare(x.Key, y.Key))
	})
	respond(w, http.StatusOK, ok(body{"by": by, "from": from, "to": to, "rows": out, "calls": total.Calls, "usage": total.Usage}))
}

// spent reads the rows of a collection from one day to another.
func (a *API) spent(r *http.Request, collection, from, to string) ([]projections.Spent, error) {
	q := projections.Query{Collection: collection, Tenant: tenant(r), Limit: maxPage, OrderBy: []projections.Order{{Field: "day"}},
		Where: []projections.Where{{Field: "day", Op: ">=", Value: from}, {Field: "day", Op: "<=", Value: to}}}
	var out []projections.Spent
	for {
		p, err := a.Documents.Find(r.Context(), q)
		if err != nil {
			return nil, err
		}
		rows, err := documents[projections.Spent](p.Documents)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		if q.Cursor = p.Next; q.Cursor == "" {
			return out, nil
		}
		if len(out) >= maxUsageRows {
			return nil, invalid("there are too many rows; move from and to closer together, or ask by day or model")
		}
	}
}

// day reads an optional day: a date, or a time in RFC 3339 form, of which the day
// in UTC counts.
func day(r *http.Request, name string, missing time.Time) (string, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return missing.Format(time.DateOnly), nil
	}
	if t, err := time.Parse(time.DateOnly, raw); err == nil {
		return t.Format(time.DateOnly), nil
	}
	t, err := moment(r, name)
	if err != nil {
		return "", invalid(name + " must be a date, for example 2026-01-31, or a time in RFC 3339 form")
	}
	return t.UTC().Format(time.DateOnly), nil
}
