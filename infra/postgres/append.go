package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// maxAppend is how much one append may hold, in bytes, so that it fits into a
// message of the protocol.
const maxAppend = 256 << 20

// noTime is how the zero time is stored.
const noTime = math.MinInt64

// Append implements event.Store. Appends of facts are on the server's disk when
// it returns; appends to transient streams survive the death of this process,
// not of the server. An append of more than 256 MiB, or with a NUL or bytes that
// are no UTF-8 in its stream, event ids or types, is ErrInvalid. If the
// connection breaks before the answer, the same ids are tried again until the
// outcome is known, for some seconds; after that it is ErrUnavailable, and the
// same ids may be appended again.
func (s *Store) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	if err := event.Check(stream, expect, events); err != nil {
		return event.Appended{}, err
	}
	j, err := newJob(stream, expect.Version(), events)
	if err != nil {
		return event.Appended{}, err
	}
	if j.feed, err = s.db.feed(ctx, stream); err != nil {
		return event.Appended{}, err
	}
	taken, err := s.db.w.submit(ctx, j)
	switch {
	case !taken:
		return event.Appended{}, err
	case err != nil:
		err = s.db.alone(ctx, j)
	case !j.won:
		err = s.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error { return j.again(ctx, c, j.conflict()) })
	}
	if err != nil {
		return event.Appended{}, err
	}
	return j.result, nil
}

// appendJob is one append, encoded before anybody leads.
type appendJob struct {
	stream event.Stream
	feed   int64
	expect int64
	events []event.New
	times  []int64
	metas  []string
	bytes  int
	won    bool // written; otherwise the stream was not at the expected version
	result event.Appended
}

func newJob(stream event.Stream, expect int64, events []event.New) (*appendJob, error) {
	j := &appendJob{stream: stream, expect: expect, events: slices.Clone(events), times: make([]int64, len(events)), metas: make([]string, len(events))}
	if !plain(stream.Tenant) || !plain(stream.Category) || !plain(stream.ID) {
		return nil, fmt.Errorf("%w: stream %q is no text", event.ErrInvalid, stream.String())
	}
	for i, e := range events {
		if !plain(e.ID) || !plain(e.Type) {
			return nil, fmt.Errorf("%w: event id %q or type %q is no text", event.ErrInvalid, e.ID, e.Type)
		}
		if e.Schema > math.MaxInt32 {
			return nil, fmt.Errorf("%w: schema number %d of %s is too large", event.ErrInvalid, e.Schema, e.Type)
		}
		j.times[i] = noTime
		if !e.Time.IsZero() {
			j.times[i] = e.Time.UnixNano()
			if j.times[i] == noTime || !time.Unix(0, j.times[i]).Equal(e.Time) {
				return nil, fmt.Errorf("%w: time %s of event %s cannot be stored", event.ErrInvalid, e.Time, e.ID)
			}
		}
		if i > 0 && e.Meta == events[i-1].Meta {
			j.metas[i] = j.metas[i-1]
		} else {
			j.metas[i] = string(sqlstore.EncodeMeta(e.Meta))
		}
		if e.Data == nil {
			j.events[i].Data = []byte{}
		}
		j.bytes += 200 + len(e.Data) + len(j.metas[i])
	}
	if j.bytes > maxAppend {
		return nil, fmt.Errorf("%w: append to %s of %d bytes, at most %d", event.ErrInvalid, stream, j.bytes, maxAppend)
	}
	return j, nil
}

// plain tells whether a string can be kept as text.
func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func (j *appendJob) conflict() error {
	return fmt.Errorf("%w: %s is not at version %d", event.ErrConflict, j.stream, j.expect)
}

// lockSQL takes the rows of all streams of a batch in one order, so that two
// batches never wait for each other.
const lockSQL = `SELECT FROM stream s JOIN unnest($1::bigint[], $2::text[]) r (feed, name) ON s.feed = r.feed AND s.name = r.name
ORDER BY s.feed, s.name FOR UPDATE OF s`

// appendSQL writes the requests whose stream is at the expected version and
// gives the position of the last event of each. What makes the followers' proof
// hold: the rows of events are joined to the streams that were just written and
// sorted, and only then numbered, so the transaction owns its id, and the lock
// of the table, before it draws a position, and a stream's positions grow with
// its versions.
const appendSQL = `WITH r AS (
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS r (feed, name, expect, count, n)
), made AS (
  INSERT INTO stream (feed, name, version) SELECT feed, name, count FROM r WHERE expect = 0 ORDER BY feed, name
  ON CONFLICT (feed, name) DO NOTHING
  RETURNING id, feed, name
), moved AS (
  UPDATE stream s SET version = r.expect + r.count FROM r
  WHERE r.expect > 0 AND s.feed = r.feed AND s.name = r.name AND s.version = r.expect
  RETURNING s.id, r.n, r.feed, r.expect
), won AS (
  SELECT m.id, r.n, r.feed, r.expect FROM made m JOIN r USING (feed, name)
  UNION ALL SELECT id, n, feed, expect FROM moved
), put AS (
  INSERT INTO event (position, feed, stream, version, time, schema, id, type, meta, data)
  SELECT nextval('event_position'), feed, stream, version, time, schema, id, type, meta, data FROM (
    SELECT won.feed, won.id AS stream, won.expect + e.nth AS version, e.time, e.schema, e.id, e.type, e.meta, e.data
    FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::int[], $9::text[], $10::text[], $11::text[], $12::bytea[]) e (n, nth, time, schema, id, type, meta, data)
    JOIN won ON won.n = e.n ORDER BY e.n, e.nth
  ) rows
  RETURNING stream, position
)
SELECT won.n, max(put.position) FROM put JOIN won ON won.id = put.stream GROUP BY won.n`

// oneSQL is appendSQL for one event of a stream that exists, and firstSQL for the
// first of a new one: what a lone caller asks for, at less than half the cost.
// Here too the stream's row is written before a number is drawn.
const (
	oneSQL = `WITH s AS (UPDATE stream SET version = version + 1 WHERE feed = $1 AND name = $2 AND version = $3 RETURNING id)
` + insertSQL
	firstSQL = `WITH s AS (INSERT INTO stream (feed, name, version) VALUES ($1, $2, $3::bigint + 1) ON CONFLICT (feed, name) DO NOTHING RETURNING id)
` + insertSQL
	insertSQL = `INSERT INTO event (position, feed, stream, version, time, schema, id, type, meta, data)
SELECT nextval('event_position'), $1, id, $3 + 1, $4, $5, $6, $7, $8, $9 FROM s RETURNING position`
)

// lazySQL commits without waiting for the disk if what the sequence has handed
// out is on it, up to $1: a server that crashes loses the deltas of its last
// moment, but must not give their positions to other events, which those who
// have seen the deltas would then miss. It gives what is on the disk after this.
const lazySQL = `SELECT CASE WHEN last_value <= $1 THEN set_config('synchronous_commit', 'off', true) ELSE '' END = 'off', last_value + greatest(log_cnt - 1, 0) FROM event_position`

// write appends the jobs in one transaction on a connection: all that are at the
// expected version, or none on an error.
func write(ctx context.Context, c *pgx.Conn, jobs []*appendJob, settled *int64) error {
	if j := jobs[0]; len(jobs) == 1 && len(j.events) == 1 && !j.stream.Transient() {
		return j.writeOne(ctx, c)
	}
	slices.SortFunc(jobs, func(a, b *appendJob) int {
		if a.feed != b.feed {
			return int(a.feed - b.feed)
		}
		return strings.Compare(a.stream.ID, b.stream.ID)
	})
	n := 0
	for _, j := range jobs {
		n += len(j.events)
	}
	var (
		feed, expect, count = make([]int64, len(jobs)), make([]int64, len(jobs)), make([]int64, len(jobs))
		name                = make([]string, len(jobs))
		of, nth, at         = make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
		schema              = make([]int32, 0, n)
		id, kind, meta      = make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
		data                = make([][]byte, 0, n)
		lazy, known         = true, 0
	)
	for i, j := range jobs {
		feed[i], name[i], expect[i], count[i] = j.feed, j.stream.ID, j.expect, int64(len(j.events))
		lazy = lazy && j.stream.Transient()
		if j.expect > 0 {
			known++
		}
		for k, e := range j.events {
			of, nth, at = append(of, int64(i+1)), append(nth, int64(k+1)), append(at, j.times[k])
			schema, id, kind, meta, data = append(schema, int32(e.Schema)), append(id, e.ID), append(kind, e.Type), append(meta, j.metas[k]), append(data, e.Data)
		}
		j.won = false
	}
	args := []any{feed, name, expect, count, of, nth, at, schema, id, kind, meta, data}
	took := func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			var n, position int64
			if err := rows.Scan(&n, &position); err != nil {
				return err
			}
			j := jobs[n-1]
			j.won, j.result = true, event.Appended{Version: j.expect + int64(len(j.events)), Position: sqlstore.Position(position)}
		}
		return rows.Err()
	}
	// A statement alone is a transaction; several in one pipeline are one, too.
	if known < 2 && !lazy {
		rows, err := c.Query(ctx, appendSQL, args...)
		if err != nil {
			return err
		}
		return took(rows)
	}
	var b pgx.Batch
	if known > 1 {
		b.Queue(lockSQL, feed, name)
	}
	b.Queue(appendSQL, args...).Query(took)
	sure := int64(0)
	if lazy {
		b.Queue(lazySQL, *settled).QueryRow(func(row pgx.Row) error {
			var off bool
			if err := row.Scan(&off, &sure); off {
				sure = 0
				return err
			} else {
				return err
			}
		})
	}
	if err := c.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	*settled = max(*settled, sure)
	return nil
}

func (j *appendJob) writeOne(ctx context.Context, c *pgx.Conn) error {
	sql, e, position := oneSQL, &j.events[0], int64(0)
	if j.expect == 0 {
		sql = firstSQL
	}
	j.won = false
	err := c.QueryRow(ctx, sql, j.feed, j.stream.ID, j.expect, j.times[0], int32(e.Schema), e.ID, e.Type, j.metas[0], e.Data).Scan(&position)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	j.won, j.result = true, event.Appended{Version: j.expect + 1, Position: sqlstore.Position(position)}
	return nil
}

// again gives the first answer if all events are already in the stream in this
// order, none if none of them is anywhere, and ErrInvalid for anything between.
func (j *appendJob) again(ctx context.Context, c *pgx.Conn, none error) error {
	ids := make([]string, len(j.events))
	for i, e := range j.events {
		ids[i] = e.ID
	}
	type place struct {
		feed              int64
		name              string
		version, position int64
	}
	rows, err := c.Query(ctx, "SELECT e.id, s.feed, s.name, e.version, e.position FROM event e JOIN stream s ON s.id = e.stream WHERE e.id = ANY($1)", ids)
	if err != nil {
		return err
	}
	found := map[string]place{}
	var id string
	var p place
	if _, err := pgx.ForEachRow(rows, []any{&id, &p.feed, &p.name, &p.version, &p.position}, func() error {
		found[id] = p
		return nil
	}); err != nil {
		return err
	}
	if len(found) == 0 {
		return none
	}
	version := int64(0)
	for _, id := range ids {
		p, ok := found[id]
		if !ok {
			continue
		}
		if p.feed != j.feed || p.name != j.stream.ID || p.version <= version {
			return fmt.Errorf("%w: event id %q is already used elsewhere in the log", event.ErrInvalid, id)
		}
		version = p.version
		j.result = event.Appended{Version: version, Position: sqlstore.Position(p.position)}
	}
	if len(found) < len(ids) {
		return fmt.Errorf("%w: only some of the event ids are already in %s", event.ErrInvalid, j.stream)
	}
	return nil
}

// errRetry asks alone for another try.
var errRetry = errors.New("an event id was taken, and then not there")

// alone runs one append outside the batches, on a connection of the pool: after
// a batch that failed because of one of its requests, that waited too long for a
// row, or whose outcome is not known. As the ids stay the same, doing it again
// finds out what happened to it.
func (db *DB) alone(ctx context.Context, j *appendJob) error {
	return db.patient(ctx, "write", func(ctx context.Context) error {
		c, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		// Its own context must not cut it off half-way: only the reply time does.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyWait)
		defer cancel()
		jobs := []*appendJob{j}
		var none int64
		err = write(bound, c.Conn(), jobs, &none)
		db.appended(jobs, err)
		switch {
		case code(err) == codeUnique:
			return j.again(ctx, c.Conn(), errRetry)
		case err != nil:
			return err
		case !j.won:
			return j.again(ctx, c.Conn(), j.conflict())
		}
		return nil
	})
}

// appended lets everybody know of a transaction that has ended.
func (db *DB) appended(jobs []*appendJob, err error) {
	top := int64(0)
	for _, j := range jobs {
		if j.won && err == nil {
			n, _ := sqlstore.ParsePosition(j.result.Position)
			top = max(top, n)
		}
	}
	for at := db.acked.Load(); top > at && !db.acked.CompareAndSwap(at, top); {
		at = db.acked.Load()
	}
	db.tail.poke()
	if top > 0 {
		db.notice.ringUp()
	}
}
