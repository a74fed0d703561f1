package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ncruces/go-sqlite3"
)

// bind sets the parameters of a statement: string, int64, bool, []byte or nil.
func bind(s *sqlite3.Stmt, args []any) (err error) {
	for i, a := range args {
		switch a := a.(type) {
		case nil:
			err = s.BindNull(i + 1)
		case string:
			err = s.BindText(i+1, a)
		case int64:
			err = s.BindInt64(i+1, a)
		case bool:
			err = s.BindBool(i+1, a)
		case []byte:
			if a == nil {
				err = s.BindNull(i + 1)
			} else {
				err = s.BindBlob(i+1, a)
			}
		default:
			err = fmt.Errorf("cannot bind a %T", a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// query runs a statement and calls fn for each row. fn must not run the same
// statement.
func query(s *sqlite3.Stmt, fn func(*sqlite3.Stmt) error, args []any) error {
	err := bind(s, args)
	for err == nil && s.Step() {
		err = fn(s)
	}
	return errors.Join(err, s.Err(), s.Reset())
}

func (r *reader) query(sql string, fn func(*sqlite3.Stmt) error, args ...any) error {
	s, err := r.stmt(sql)
	if err != nil {
		return err
	}
	return query(s, fn, args)
}

func (w *writer) query(sql string, fn func(*sqlite3.Stmt) error, args ...any) error {
	s, err := w.stmt(sql)
	if err != nil {
		return err
	}
	return query(s, fn, args)
}

// change executes a statement that gives nothing.
func (w *writer) change(sql string, args ...any) error {
	s, err := w.stmt(sql)
	if err != nil {
		return err
	}
	return errors.Join(bind(s, args), s.Exec())
}

// encodeFloats gives a vector as its row holds it.
func encodeFloats(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// floats reads what encodeFloats wrote, into to.
func floats(to []float32, b []byte) []float32 {
	to = to[:0]
	for ; len(b) >= 4; b = b[4:] {
		to = append(to, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return to
}
