package sqlite

import (
	"context"
	"errors"
	"fmt"

	"refold/domain/event"
)

// Trim implements event.Store.
func (s *Store) Trim(ctx context.Context, stream event.Stream) error {
	if err := stream.Validate(); err != nil {
		return err
	}
	if !stream.Transient() {
		return fmt.Errorf("%w: %s holds facts and cannot be trimmed", event.ErrInvalid, stream)
	}
	if err := s.db.submit(ctx, trimJob{stream}); err != nil {
		return err
	}
	s.db.recent.trim(stream)
	return nil
}

type trimJob struct{ stream event.Stream }

func (j trimJob) durable() bool { return false }
func (j trimJob) size() int     { return 64 << 10 }

func (j trimJob) run(w *writer) (refused, err error) {
	st, err := w.stream(j.stream)
	if err != nil || st.id == 0 {
		return nil, err
	}
	// The mark first: once the last rows are gone nothing else remembers how far
	// positions were given out.
	for _, q := range []struct {
		sql string
		arg int64
	}{
		{"INSERT INTO mark (name, value) VALUES ('position', ?) ON CONFLICT DO UPDATE SET value = excluded.value", w.head},
		{"DELETE FROM event WHERE stream = ?", st.id},
		{"DELETE FROM stream WHERE id = ?", st.id},
	} {
		s, err := w.stmt(q.sql)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(s.BindInt64(1, q.arg), s.Exec()); err != nil {
			return nil, err
		}
	}
	delete(w.streams, j.stream)
	return nil, nil
}
