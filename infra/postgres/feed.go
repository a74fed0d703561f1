package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
)

// feeds is what this process knows of the table of feeds. The tail reads it up
// to date before it lets anybody see the events of a new one.
type feeds struct {
	mu   sync.RWMutex
	ids  map[feedKey]int64
	keys map[int64]feedKey
	last int64 // all feeds up to this id are known
}

type feedKey struct{ tenant, category string }

func (f *feeds) add(id int64, key feedKey) {
	if f.ids == nil {
		f.ids, f.keys = map[feedKey]int64{}, map[int64]feedKey{}
	}
	f.ids[key], f.keys[id] = id, key
}

// learn reads the rows of feedsSQL.
func (f *feeds) learn(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var id int64
		var key feedKey
		if err := rows.Scan(&id, &key.tenant, &key.category); err != nil {
			return err
		}
		f.mu.Lock()
		f.add(id, key)
		f.last = max(f.last, id)
		f.mu.Unlock()
	}
	return rows.Err()
}

// feedsSQL finds feeds made since: ids grow in commit order.
const feedsSQL = "SELECT id, tenant, category FROM feed WHERE id > $1 ORDER BY id"

func (f *feeds) upTo() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.last
}

func (f *feeds) key(id int64) (feedKey, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	k, ok := f.keys[id]
	return k, ok
}

// wanted gives the feeds that a filter lets through, and whether these are all
// that hold facts, so that a plain walk skips hardly anything.
func (f *feeds) wanted(filter event.Filter) (ids []int64, all bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all = true
	for id, k := range f.keys {
		s := event.Stream{Tenant: k.tenant, Category: k.category}
		if filter.Match(s) {
			ids = append(ids, id)
		} else if !s.Transient() {
			all = false
		}
	}
	return ids, all
}

// feed gives the id of a stream's tenant and category, making it if need be. It
// is made in a transaction of its own: an append that is refused leaves it.
func (db *DB) feed(ctx context.Context, s event.Stream) (id int64, err error) {
	key := feedKey{s.Tenant, s.Category}
	db.feeds.mu.RLock()
	id = db.feeds.ids[key]
	db.feeds.mu.RUnlock()
	if id != 0 {
		return id, nil
	}
	err = db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "LOCK TABLE feed IN SHARE ROW EXCLUSIVE MODE"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO feed (id, tenant, category) SELECT (SELECT coalesce(max(id), 0) + 1 FROM feed), $1, $2 ON CONFLICT DO NOTHING", key.tenant, key.category); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT id FROM feed WHERE tenant = $1 AND category = $2", key.tenant, key.category).Scan(&id)
		})
	})
	if err != nil {
		return 0, err
	}
	db.feeds.mu.Lock()
	db.feeds.add(id, key)
	db.feeds.mu.Unlock()
	return id, nil
}
