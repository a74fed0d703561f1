package sqlite

import (
	"context"
	"errors"
	"fmt"

	"refold/domain/event"
)

// Trim implements event.Store.
func (s *Store) Trim(ctx context.Context, streams ...event.Stream) error {
	for _, stream := range streams {
		if err := stream.Validate(); err != nil {
			return err
		}
		if !stream.Transient() {
			return fmt.Errorf("%w: %s holds facts and cannot be trimmed", event.ErrInvalid, stream)
		}
	}
	if len(streams) == 0 {
		return nil
	}
	if err := s.db.submit(ctx, trimJob(streams)); err != nil {
		return err
	}
	s.db.recent.trim(streams)
	return nil
}

type trimJob []event.Stream

func (j trimJob) durable() bool { return false }
func (j trimJob) size() int     { return len(j) * 16 << 10 }

func (j trimJob) run(w *writer) (refused, err error) {
	marked := false
	for _, name := range j {
		st, err := w.stream(name)
		if err != nil {
			return nil, err
		}
		if st.id == 0 {
			delete(w.streams, name)
			continue
		}
		// The mark first: once the last rows are gone nothing else remembers how
		// far positions were given out.
		if !marked {
			if err := w.number("INSERT INTO mark (name, value) VALUES ('position', ?) ON CONFLICT DO UPDATE SET value = excluded.value", w.head); err != nil {
				return nil, err
			}
			marked = true
		}
		for _, sql := range []string{"DELETE FROM event WHERE stream = ?", "DELETE FROM stream WHERE id = ?"} {
			if err := w.number(sql, st.id); err != nil {
				return nil, err
			}
		}
		delete(w.streams, name)
	}
	return nil, nil
}

// number runs a statement with one number.
func (w *writer) number(sql string, arg int64) error {
	s, err := w.stmt(sql)
	if err != nil {
		return err
	}
	return errors.Join(s.BindInt64(1, arg), s.Exec())
}
