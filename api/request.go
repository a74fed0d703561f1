package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"refold/domain/event"
	"refold/projections"
)

// Limits of requests.
const (
	maxBody     = 1 << 20 // bytes
	maxChatBody = 4 << 20 // bytes
	maxPage     = 1000    // rows
	maxOffset   = 1_000_000
)

func itoa(n int) string { return strconv.Itoa(n) }

func itoa64(n int64) string { return strconv.FormatInt(n, 10) }

// decode reads a JSON object into v. Unknown fields are ignored, an empty body
// is an empty object; a field of the wrong type is named.
func decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return invalid("the request body could not be read: " + err.Error())
	}
	return parse(raw, v)
}

// parse reads the JSON of a body into v.
func parse(raw []byte, v any) error {
	if len(raw) == 0 {
		return nil
	}
	if !utf8.Valid(raw) {
		return invalid("the request body is not valid UTF-8")
	}
	err := json.Unmarshal(raw, v)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && strings.HasPrefix(typ.Value, "number ") {
		err = json.Unmarshal(wholeNumbers(raw), v)
	}
	if err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &typ) && typ.Field == "":
			return invalid("the request body must be a JSON object, not " + typ.Value)
		case errors.As(err, &typ):
			return invalid(fmt.Sprintf("the field %q must be %s, not %s", typ.Field, kindName(typ.Type.Kind().String()), typ.Value))
		case errors.As(err, &syntax):
			return invalid(fmt.Sprintf("the request body is not valid JSON at byte %d: %s", syntax.Offset, syntax.Error()))
		}
		return invalid("the request body is not valid JSON: " + err.Error())
	}
	return nil
}

// wholeNumbers writes the numbers of valid JSON that are integers as such: 3.0 and
// 3e0 as 3.
func wholeNumbers(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i + 1
		switch c := raw[i]; {
		case c == '"':
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(raw))
		case c == '-' || '0' <= c && c <= '9':
			for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
				end++
			}
			if n, err := strconv.ParseFloat(string(raw[i:end]), 64); err == nil && bytes.ContainsAny(raw[i:end], ".eE") && isWhole(n) && n >= -1<<63 && n < 1<<63 {
				out, i = strconv.AppendInt(out, int64(n), 10), end
				continue
			}
		}
		out, i = append(out, raw[i:end]...), end
	}
	return out
}

// isWhole tells whether a number of JSON is an integer, which 3.0 is too.
func isWhole(n float64) bool { return n == math.Trunc(n) }

func kindName(kind string) string {
	switch {
	case kind == "string":
		return "a string"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "an array"
	case kind == "struct", kind == "map":
		return "an object"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number, and not too large"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	}
	return "of another type"
}

// paging reads page, page_size and cursor.
func paging(r *http.Request) (page, size int, cursor string, err error) {
	if page, err = number(r, "page", 1, 0, maxOffset); err != nil {
		return
	}
	if size, err = number(r, "page_size", 20, 0, maxPage); err != nil {
		return
	}
	if page == 0 {
		page = 1
	}
	if size == 0 {
		size = 20
	}
	if (page-1)*size > maxOffset {
		return 0, 0, "", invalid("the page lies too far back; walk with cursor instead")
	}
	return page, size, r.URL.Query().Get("cursor"), nil
}

func number(r *http.Request, name string, missing, low, high int) (int, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < low || n > high {
		return 0, invalid(fmt.Sprintf("%s must be a number from %d to %d", name, low, high))
	}
	return n, nil
}

// yes reads an optional truth value.
func yes(r *http.Request, name string, missing bool) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "":
		return missing, nil
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, invalid(name + " must be true or false")
}

// moment reads an optional RFC 3339 time.
func moment(r *http.Request, name string) (time.Time, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return time.Time{}, nil
	}
	// A plus sign that was not escaped arrives as a blank.
	t, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(raw, " ", "+"))
	if err != nil {
		return t, invalid(name + " must be a time in RFC 3339 form, for example 2026-01-31T08:00:00Z")
	}
	return t, nil
}

// query starts a query on a read model with the request's paging.
func query(r *http.Request, collection string, order ...projections.Order) (projections.Query, int, error) {
	page, size, cursor, err := paging(r)
	return projections.Query{Collection: collection, Tenant: tenant(r), OrderBy: order, Offset: (page - 1) * size, Limit: size,
		Cursor: cursor, CountTotal: true, NoIndex: true}, page, err
}

// list answers a page in the reference's form, with a cursor for walks.
func list[T any](w http.ResponseWriter, rows []T, page int, q projections.Query, p projections.Page) {
	if rows == nil {
		rows = []T{}
	}
	b := body{"success": true, "data": rows, "total": p.Total, "page": page, "page_size": q.Limit}
	if p.Next != "" {
		b["next_cursor"] = p.Next
	}
	respond(w, http.StatusOK, b)
}

// documents decodes the documents of a page.
func documents[T any](docs []projections.Document) ([]T, error) {
	out := make([]T, len(docs))
	for i, d := range docs {
		if err := event.Unmarshal(d.Body, &out[i]); err != nil {
			return nil, fmt.Errorf("document %s %s: %w", d.Collection, d.ID, err)
		}
	}
	return out, nil
}
