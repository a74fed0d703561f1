package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shelf is one collection of one tenant, as the writer knows it. Its index has an
// entry for each document and each field that any of its documents ever had, so
// that every order is a plain walk over entries.
type shelf struct {
	w         *writer
	id        int64
	documents int64
	fields    []shelfField
	touched   bool // by the open commit
}

type shelfField struct {
	name string
	id   int64
}

// maxShelves bounds the writer's memory of shelves (about 500 bytes each).
const maxShelves = 2048

// shelf gives a shelf; nil if there is none and none is to be made. A rollback
// empties the cache.
func (w *writer) shelf(collection, tenant string, create bool) (*shelf, error) {
	name := [2]string{collection, tenant}
	if s := w.shelves[name]; s != nil {
		return s, nil
	}
	if create {
		if err := w.run("INSERT INTO shelf (collection, tenant) VALUES (?, ?) ON CONFLICT DO NOTHING", collection, tenant); err != nil {
			return nil, err
		}
	}
	find, err := w.stmt("SELECT id, documents FROM shelf WHERE collection = ? AND tenant = ?")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(find.BindText(1, collection), find.BindText(2, tenant)); err != nil {
		return nil, err
	}
	s := &shelf{w: w}
	if find.Step() {
		s.id, s.documents = find.ColumnInt64(0), find.ColumnInt64(1)
	}
	if err := errors.Join(find.Err(), find.Reset()); err != nil || s.id == 0 {
		return nil, err
	}
	names, err := w.stmt("SELECT name, id FROM field WHERE shelf = ?")
	if err != nil {
		return nil, err
	}
	if err := names.BindInt64(1, s.id); err != nil {
		return nil, err
	}
	for names.Step() {
		s.fields = append(s.fields, shelfField{names.ColumnText(0), names.ColumnInt64(1)})
	}
	if err := errors.Join(names.Err(), names.Reset()); err != nil {
		return nil, err
	}
	w.shelves[name] = s
	return s, nil
}

// save writes down the count and that the shelf has changed.
func (s *shelf) save() error {
	s.touched = false
	return s.w.run("UPDATE shelf SET documents = ?, changed = changed + 1 WHERE id = ?", s.documents, s.id)
}

// find gives a document's row and its index values; row 0 if it is not there.
func (s *shelf) find(id string) (row int64, f fields, err error) {
	q, err := s.w.stmt("SELECT row, fields FROM document WHERE shelf = ? AND id = ?")
	if err != nil {
		return 0, nil, err
	}
	if err := errors.Join(q.BindInt64(1, s.id), q.BindText(2, id)); err != nil {
		return 0, nil, err
	}
	if q.Step() {
		row = q.ColumnInt64(0)
		f, err = decodeFields(q.ColumnRawBlob(1))
	}
	return row, f, errors.Join(err, q.Err(), q.Reset())
}

func (s *shelf) put(id string, f fields, body []byte) error {
	for _, v := range f {
		if !slices.ContainsFunc(s.fields, func(known shelfField) bool { return known.name == v.name }) {
			if err := s.add(v.name); err != nil {
				return err
			}
		}
	}
	row, old, err := s.find(id)
	if err != nil {
		return err
	}
	sql := "UPDATE document SET fields = ?1, body = ?2 WHERE row = ?3"
	if row == 0 {
		sql = "INSERT INTO document (fields, body, shelf, id) VALUES (?1, ?2, ?3, ?4)"
	}
	q, err := s.w.stmt(sql)
	if err != nil {
		return err
	}
	if err := errors.Join(q.BindBlob(1, f.encode()), q.BindBlob(2, body)); err != nil {
		return err
	}
	if row == 0 {
		err = errors.Join(q.BindInt64(3, s.id), q.BindText(4, id))
	} else {
		err = q.BindInt64(3, row)
	}
	if err := errors.Join(err, q.Exec()); err != nil {
		return err
	}
	if row == 0 {
		s.documents++
		return s.index(id, s.w.conn.LastInsertRowID(), f)
	}
	for _, field := range s.fields {
		was, is := entry(old.get(field.name)), entry(f.get(field.name))
		if was == is {
			continue
		}
		if err := s.w.run("UPDATE entry SET value = ? WHERE field = ? AND value = ? AND id = ?", is, field.id, was, id); err != nil {
			return err
		}
	}
	return nil
}

// index makes the entries of a new document, with one statement for several.
func (s *shelf) index(id string, row int64, f fields) error {
	for rest := s.fields; len(rest) > 0; {
		n := min(len(rest), len(indexSQL)-1)
		q, err := s.w.stmt(indexSQL[n])
		if err != nil {
			return err
		}
		err = errors.Join(q.BindText(1, id), q.BindInt64(2, row))
		for i, field := range rest[:n] {
			err = errors.Join(err, q.BindInt64(3+2*i, field.id), bindEntry(q, 4+2*i, entry(f.get(field.name))))
		}
		if err := errors.Join(err, q.Exec()); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// indexSQL is the statement for each number of entries of one document.
var indexSQL = func() (out [9]string) {
	for n := 1; n < len(out); n++ {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = fmt.Sprintf("(?%d, ?%d, ?1, ?2)", 3+2*i, 4+2*i)
		}
		out[n] = "INSERT INTO entry (field, value, id, row) VALUES " + strings.Join(rows, ", ")
	}
	return out
}()

// add begins to index a field: documents that are already there lack it.
func (s *shelf) add(name string) error {
	if err := s.w.run("INSERT INTO field (shelf, name) VALUES (?, ?)", s.id, name); err != nil {
		return err
	}
	field := s.w.conn.LastInsertRowID()
	s.fields = append(s.fields, shelfField{name, field})
	if s.documents == 0 {
		return nil
	}
	return s.w.run("INSERT INTO entry (field, value, id, row) SELECT ?, ?, id, row FROM document WHERE shelf = ? ORDER BY id", field, nil, s.id)
}

func (s *shelf) remove(id string) error {
	row, old, err := s.find(id)
	if err != nil || row == 0 {
		return err
	}
	for _, field := range s.fields {
		if err := s.w.run("DELETE FROM entry WHERE field = ? AND value = ? AND id = ?", field.id, entry(old.get(field.name)), id); err != nil {
			return err
		}
	}
	s.documents--
	return s.w.run("DELETE FROM document WHERE row = ?", row)
}

// shelfOf finds a shelf for reading, in the snapshot that is open.
func (r *reader) shelfOf(collection, tenant string) (id, documents, changed int64, err error) {
	q, err := r.stmt("SELECT id, documents, changed FROM shelf WHERE collection = ? AND tenant = ?")
	if err != nil {
		return 0, 0, 0, err
	}
	if err := errors.Join(q.BindText(1, collection), q.BindText(2, tenant)); err != nil {
		return 0, 0, 0, err
	}
	if q.Step() {
		id, documents, changed = q.ColumnInt64(0), q.ColumnInt64(1), q.ColumnInt64(2)
	}
	return id, documents, changed, errors.Join(q.Err(), q.Reset())
}

// indexField names a field of a shelf.
type indexField struct {
	shelf int64
	name  string
}

// fieldOf finds an index field for reading; 0 if no document ever had it.
func (r *reader) fieldOf(shelf int64, name string) (id int64, err error) {
	key := indexField{shelf, name}
	if id := r.fields[key]; id != 0 {
		return id, nil
	}
	q, err := r.stmt("SELECT id FROM field WHERE shelf = ? AND name = ?")
	if err != nil {
		return 0, err
	}
	if err := errors.Join(q.BindInt64(1, shelf), q.BindText(2, name)); err != nil {
		return 0, err
	}
	if q.Step() {
		id = q.ColumnInt64(0)
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil || id == 0 {
		return 0, err
	}
	if len(r.fields) >= maxCachedNames {
		clear(r.fields)
	}
	r.fields[key] = id
	return id, nil
}

// fieldsAt reads a document's index values by row.
func (r *reader) fieldsAt(row int64) (f fields, err error) {
	q, err := r.stmt("SELECT fields FROM document WHERE row = ?")
	if err != nil {
		return nil, err
	}
	if err := q.BindInt64(1, row); err != nil {
		return nil, err
	}
	if q.Step() {
		f, err = decodeFields(q.ColumnRawBlob(0))
	}
	return f, errors.Join(err, q.Err(), q.Reset())
}
