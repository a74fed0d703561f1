package sqlite

import (
	"errors"
)

// shelf is one collection of one tenant, open for writing in a transaction.
// Its index has an entry for each document and each field that any of its
// documents ever had, so that every order is a plain walk over entries.
type shelf struct {
	w         *writer
	id        int64
	documents int64
	fields    map[string]int64 // ids by name
}

// shelf opens a shelf; nil if there is none and none is to be made.
func (w *writer) shelf(collection, tenant string, create bool) (*shelf, error) {
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
	s := &shelf{w: w, fields: map[string]int64{}}
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
		s.fields[names.ColumnText(0)] = names.ColumnInt64(1)
	}
	return s, errors.Join(names.Err(), names.Reset())
}

// save writes down the count and that the shelf has changed.
func (s *shelf) save() error {
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
		if s.fields[v.name] == 0 {
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
	fresh := row == 0
	if fresh {
		row = s.w.conn.LastInsertRowID()
		s.documents++
	}
	for name, field := range s.fields {
		was, is := entry(old.get(name)), entry(f.get(name))
		if !fresh {
			if was == is {
				continue
			}
			if err := s.unindex(field, was, id); err != nil {
				return err
			}
		}
		if err := s.w.run("INSERT INTO entry (field, value, id, row) VALUES (?, ?, ?, ?)", field, is, id, row); err != nil {
			return err
		}
	}
	return nil
}

// add begins to index a field: documents that are already there lack it.
func (s *shelf) add(name string) error {
	if err := s.w.run("INSERT INTO field (shelf, name) VALUES (?, ?)", s.id, name); err != nil {
		return err
	}
	field := s.w.conn.LastInsertRowID()
	s.fields[name] = field
	if s.documents == 0 {
		return nil
	}
	return s.w.run("INSERT INTO entry (field, value, id, row) SELECT ?, ?, id, row FROM document WHERE shelf = ? ORDER BY id", field, nil, s.id)
}

func (s *shelf) unindex(field int64, v any, id string) error {
	return s.w.run("DELETE FROM entry WHERE field = ? AND value = ? AND id = ?", field, v, id)
}

func (s *shelf) remove(id string) error {
	row, old, err := s.find(id)
	if err != nil || row == 0 {
		return err
	}
	for name, field := range s.fields {
		if err := s.unindex(field, entry(old.get(name)), id); err != nil {
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
