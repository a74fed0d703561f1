package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"refold/domain/event"
	"refold/projections"
)

// DocumentsFactory makes the document stores under test.
type DocumentsFactory struct {
	Open   func(t testing.TB) projections.Documents
	Reopen func(t testing.TB, d projections.Documents) projections.Documents // nil if it does not persist
}

// RunDocuments is the suite for projections.Documents.
func RunDocuments(t *testing.T, f DocumentsFactory) {
	for name, test := range map[string]func(*testing.T, *shelf){
		"put, get, delete":             testPutGet,
		"P80 checkpoint":               testDocumentCheckpoint,
		"P82 one of two commits wins":  testCommitRace,
		"a refused commit is nothing":  testCommitNothing,
		"find by every operator":       testOperators,
		"order and missing fields":     testOrder,
		"walk by cursor":               testCursorWalk,
		"walk while rows change":       testCursorStable,
		"bad cursors":                  testBadCursor,
		"fields that come later":       testLateField,
		"long values":                  testLongValues,
		"tenants never see each other": testDocumentTenants,
		"drop":                         testDrop,
		"random lists":                 testRandom,
		"bodies are any bytes":         testBodies,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &shelf{t: t, d: f.Open(t), projection: unique("list") + "@1", tenant: unique("tenant")})
		})
	}
	if f.Reopen == nil {
		return
	}
	t.Run("reopen", func(t *testing.T) {
		s := &shelf{t: t, d: f.Open(t), projection: unique("list") + "@1", tenant: unique("tenant")}
		s.put(s.doc("a", map[string]any{"n": int64(1)}), s.doc("b", map[string]any{"n": int64(2)}))
		s.d = f.Reopen(t, s.d)
		s.put(s.doc("c", map[string]any{"n": int64(0)}))
		s.find("c a b", projections.Query{OrderBy: []projections.Order{{Field: "n"}}})
	})
}

// shelf is one collection of one tenant under test.
type shelf struct {
	t                  *testing.T
	d                  projections.Documents
	projection, tenant string
	at                 int
}

func (s *shelf) key(id string) projections.Key {
	return projections.Key{Collection: s.projection, Tenant: s.tenant, ID: id}
}

func (s *shelf) doc(id string, index map[string]any) projections.Document {
	return projections.Document{Key: s.key(id), Body: fmt.Appendf(nil, `{"id":%q}`, id), Index: index}
}

// step makes the next checkpoint move.
func (s *shelf) step() projections.Batch {
	b := projections.Batch{Projection: s.projection, To: event.Position(fmt.Sprintf("%08d", s.at+1))}
	if s.at > 0 {
		b.From = event.Position(fmt.Sprintf("%08d", s.at))
	}
	s.at++
	return b
}

func (s *shelf) commit(b projections.Batch) {
	s.t.Helper()
	if err := s.d.Commit(s.t.Context(), b); err != nil {
		s.t.Fatalf("commit to %s: %v", b.To, err)
	}
}

func (s *shelf) put(docs ...projections.Document) {
	s.t.Helper()
	b := s.step()
	b.Put = docs
	s.commit(b)
}

func (s *shelf) delete(ids ...string) {
	s.t.Helper()
	b := s.step()
	for _, id := range ids {
		b.Delete = append(b.Delete, s.key(id))
	}
	s.commit(b)
}

func (s *shelf) page(q projections.Query) projections.Page {
	s.t.Helper()
	if q.Collection == "" {
		q.Collection = s.projection
	}
	if q.Tenant == "" {
		q.Tenant = s.tenant
	}
	p, err := s.d.Find(s.t.Context(), q)
	if err != nil {
		s.t.Fatalf("find %+v: %v", q, err)
	}
	return p
}

func names(docs []projections.Document) string {
	out := make([]string, len(docs))
	for i, d := range docs {
		out[i] = d.ID
	}
	return strings.Join(out, " ")
}

func (s *shelf) find(want string, q projections.Query) {
	s.t.Helper()
	if got := names(s.page(q).Documents); got != want {
		s.t.Errorf("find %+v\n got %s\nwant %s", q, got, want)
	}
}

func (s *shelf) get(ids ...string) []projections.Document {
	s.t.Helper()
	keys := make([]projections.Key, len(ids))
	for i, id := range ids {
		keys[i] = s.key(id)
	}
	docs, err := s.d.Get(s.t.Context(), keys...)
	if err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(docs, func(a, b projections.Document) int { return cmp.Compare(a.ID, b.ID) })
	return docs
}

func testPutGet(t *testing.T, s *shelf) {
	a := s.doc("a", map[string]any{"s": "text", "n": int64(math.MaxInt64), "m": int64(math.MinInt64), "t": true, "f": false, "e": ""})
	s.put(a, s.doc("b", nil))
	a.Index["t"], a.Index["f"] = int64(1), int64(0)
	got := s.get("a", "b", "c")
	if names(got) != "a b" || !reflect.DeepEqual(got[0].Index, a.Index) || string(got[0].Body) != string(a.Body) || len(got[1].Index) != 0 {
		t.Fatalf("got %+v, want %+v", got, a)
	}
	if found := s.page(projections.Query{}).Documents; !reflect.DeepEqual(found[0], got[0]) {
		t.Fatalf("find gives %+v, get %+v", found[0], got[0])
	}
	a2 := s.doc("a", map[string]any{"n": int64(2), "new": "x"})
	a2.Body = []byte(`{"changed":true}`)
	s.put(a2)
	if got := s.get("a"); !reflect.DeepEqual(got[0], a2) {
		t.Fatalf("got %+v, want %+v", got[0], a2)
	}
	s.find("", projections.Query{Where: []projections.Where{{Field: "s", Op: "=", Value: "text"}}})
	s.find("a", projections.Query{Where: []projections.Where{{Field: "new", Op: "=", Value: "x"}}})
	s.delete("a", "never")
	if got := s.get("a", "b"); names(got) != "b" {
		t.Fatalf("after delete: %s", names(got))
	}
	s.find("b", projections.Query{})
	if got := s.get(); len(got) != 0 {
		t.Fatalf("get of nothing: %s", names(got))
	}
	twice := s.doc("c", map[string]any{"n": int64(2)})
	s.put(s.doc("c", map[string]any{"n": int64(1)}), twice)
	if got := s.get("c"); !reflect.DeepEqual(got[0], twice) {
		t.Fatalf("the last of two puts must win, got %+v", got[0])
	}
	if p := s.page(projections.Query{CountTotal: true}); p.Total != 2 {
		t.Fatalf("total %d, want 2", p.Total)
	}
	s.put(s.doc("a", nil))
	s.find("a b c", projections.Query{})
}

func testDocumentCheckpoint(t *testing.T, s *shelf) {
	at := func(want event.Position) {
		t.Helper()
		got, err := s.d.Checkpoint(t.Context(), s.projection)
		if err != nil || got != want {
			t.Fatalf("checkpoint %q (%v), want %q", got, err, want)
		}
	}
	at("")
	s.put(s.doc("a", nil))
	at("00000001")
	b := s.step()
	s.commit(b) // moves without documents
	at(b.To)
	for _, from := range []event.Position{"", "00000001", "00000009"} {
		err := s.d.Commit(t.Context(), projections.Batch{Projection: s.projection, From: from, To: "00000010", Delete: []projections.Key{s.key("a")}})
		if !errors.Is(err, projections.ErrStale) {
			t.Fatalf("commit from %q: %v", from, err)
		}
	}
	if err := s.d.Commit(t.Context(), projections.Batch{Projection: s.projection, From: b.To, To: "00000001"}); err == nil {
		t.Fatal("the checkpoint moved back")
	}
	at(b.To)
	s.find("a", projections.Query{})
}

func testCommitRace(t *testing.T, s *shelf) {
	for round := range 30 {
		b := s.step()
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			b := b
			b.Put = []projections.Document{s.doc(fmt.Sprintf("%03d-%d", round, i), map[string]any{"n": int64(i)})}
			wg.Go(func() { errs[i] = s.d.Commit(t.Context(), b) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, projections.ErrStale) {
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d commits won", round, won)
		}
	}
	if p := s.page(projections.Query{Limit: 1, CountTotal: true}); p.Total != 30 {
		t.Fatalf("%d documents, want 30", p.Total)
	}
}

func testCommitNothing(t *testing.T, s *shelf) {
	s.put(s.doc("a", nil))
	for _, v := range []any{1, 1.5, nil, []string{"x"}, uint64(1)} {
		b := s.step()
		s.at--
		b.Put = []projections.Document{s.doc("b", nil), s.doc("c", map[string]any{"x": v})}
		b.Delete = []projections.Key{s.key("a")}
		if err := s.d.Commit(t.Context(), b); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("index value %T: %v", v, err)
		}
	}
	s.find("a", projections.Query{})
	s.put(s.doc("d", nil))
}

func testOperators(t *testing.T, s *shelf) {
	s.put(
		s.doc("a", map[string]any{"n": int64(1), "s": "Alpha 100%", "b": true}),
		s.doc("b", map[string]any{"n": int64(2), "s": "beta_x", "b": false}),
		s.doc("c", map[string]any{"n": int64(3), "s": "ÄPFEL"}),
		s.doc("d", map[string]any{"s": "alphabet"}),
		s.doc("e", map[string]any{"n": int64(-5), "s": ""}),
	)
	for _, c := range []struct {
		field, op string
		value     any
		want      string
	}{
		{"n", "=", int64(2), "b"}, {"n", "<", int64(2), "a e"}, {"n", "<=", int64(2), "a b e"},
		{"n", ">", int64(1), "b c"}, {"n", ">=", int64(1), "a b c"}, {"n", "=", int64(9), ""},
		{"b", "=", true, "a"}, {"b", "=", int64(0), "b"}, {"b", ">=", false, "a b"},
		{"s", "=", "beta_x", "b"}, {"s", "=", "BETA_X", ""}, {"s", ">", "alphabet", "b c"}, {"s", "<", "a", "a e"},
		{"s", "contains", "ALPHA", "a d"}, {"s", "contains", "%", "a"}, {"s", "contains", "_", "b"},
		{"s", "contains", "äpfel", "c"}, {"s", "contains", "", "a b c d e"}, {"s", "contains", "nope", ""}, {"s", "=", "", "e"},
		{"n", "=", "2", ""}, {"s", "=", int64(1), ""}, {"n", "contains", "1", ""}, {"none", "=", "x", ""}, {"none", "<", int64(1), ""},
	} {
		w := []projections.Where{{Field: c.field, Op: c.op, Value: c.value}}
		s.find(c.want, projections.Query{Where: w})
		if p := s.page(projections.Query{Where: w, CountTotal: true, Limit: 1}); p.Total != len(strings.Fields(c.want)) {
			t.Errorf("total of %s %s %v is %d", c.field, c.op, c.value, p.Total)
		}
	}
	s.find("b", projections.Query{Where: []projections.Where{{Field: "n", Op: ">", Value: int64(0)}, {Field: "n", Op: "<", Value: int64(3)}, {Field: "s", Op: "contains", Value: "E"}}})
	for _, w := range []projections.Where{{Field: "n", Op: "like", Value: "x"}, {Field: "n", Op: "=", Value: 1}} {
		if _, err := s.d.Find(t.Context(), projections.Query{Collection: s.projection, Tenant: s.tenant, Where: []projections.Where{w}}); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if p := s.page(projections.Query{}); p.Total != -1 {
		t.Errorf("total %d that nobody asked for", p.Total)
	}
}

func testOrder(t *testing.T, s *shelf) {
	s.put(
		s.doc("a", map[string]any{"n": int64(2), "p": true}),
		s.doc("b", map[string]any{"n": int64(1), "p": true}),
		s.doc("c", map[string]any{"p": false}),
		s.doc("d", map[string]any{"n": int64(2)}),
		s.doc("e", map[string]any{"n": int64(-9)}),
		s.doc("f", map[string]any{"n": int64(2), "p": false}),
	)
	up := func(f string) projections.Order { return projections.Order{Field: f} }
	down := func(f string) projections.Order { return projections.Order{Field: f, Desc: true} }
	for _, c := range []struct {
		want  string
		order []projections.Order
	}{
		{"a b c d e f", nil},
		{"c e b a d f", []projections.Order{up("n")}},
		{"a d f b e c", []projections.Order{down("n")}},
		{"a b c f d e", []projections.Order{down("p")}},
		{"a b f c d e", []projections.Order{down("p"), down("n")}},
		{"b a c f e d", []projections.Order{down("p"), up("n")}},
		{"e d c f b a", []projections.Order{up("p"), up("n")}},
		{"c e b d f a", []projections.Order{up("n"), up("p")}},
		{"a b c d e f", []projections.Order{down("none")}},
		{"c e b a d f", []projections.Order{up("none"), up("n"), down("n")}},
	} {
		s.find(c.want, projections.Query{OrderBy: c.order})
		for limit := 1; limit < 7; limit++ {
			s.walk(c.want, projections.Query{OrderBy: c.order, Limit: limit})
		}
	}
	s.find("d f", projections.Query{OrderBy: []projections.Order{down("n")}, Offset: 1, Limit: 2})
	s.find("", projections.Query{Offset: 10})
	if p := s.page(projections.Query{Offset: 4, Limit: 2}); p.Next != "" || len(p.Documents) != 2 {
		t.Errorf("the last page has a next one")
	}
}

// walk follows cursors to the end.
func (s *shelf) walk(want string, q projections.Query) {
	s.t.Helper()
	var got []projections.Document
	for {
		p := s.page(q)
		got = append(got, p.Documents...)
		if p.Next == "" {
			break
		}
		if len(p.Documents) != q.Limit && q.Limit > 0 {
			s.t.Fatalf("a page of %d has %d documents and a next one", q.Limit, len(p.Documents))
		}
		q.Cursor, q.Offset = p.Next, 99
	}
	if names(got) != want {
		s.t.Errorf("walk %+v\n got %s\nwant %s", q, names(got), want)
	}
}

func testLateField(t *testing.T, s *shelf) {
	for i := range 5 {
		s.put(s.doc(fmt.Sprint("a", i), map[string]any{"n": int64(i)}))
	}
	s.put(s.doc("b", map[string]any{"late": "x"}))
	s.find("a0 a1 a2 a3 a4 b", projections.Query{OrderBy: []projections.Order{{Field: "late"}}})
	s.find("b a0 a1 a2 a3 a4", projections.Query{OrderBy: []projections.Order{{Field: "late", Desc: true}}})
	s.put(s.doc("b", nil), s.doc("a3", map[string]any{"late": "y"}))
	s.find("a3 a0 a1 a2 a4 b", projections.Query{OrderBy: []projections.Order{{Field: "late", Desc: true}}})
	s.find("a4 a2 a1 a0 a3 b", projections.Query{OrderBy: []projections.Order{{Field: "n", Desc: true}}})
}

func testLongValues(t *testing.T, s *shelf) {
	long := strings.Repeat("x", 3000)
	s.put(s.doc("a", map[string]any{"s": long + "1"}), s.doc("b", map[string]any{"s": long + "2"}), s.doc("c", map[string]any{"s": "w"}),
		s.doc("d", map[string]any{"s": "nul\x00tail"}), s.doc("e", map[string]any{"s": "nul\x00other"}))
	s.find("b", projections.Query{Where: []projections.Where{{Field: "s", Op: "=", Value: long + "2"}}})
	s.find("e", projections.Query{Where: []projections.Where{{Field: "s", Op: "=", Value: "nul\x00other"}}})
	s.find("a b", projections.Query{Where: []projections.Where{{Field: "s", Op: "contains", Value: strings.ToUpper(long)}}})
	s.walk("e d c a b", projections.Query{OrderBy: []projections.Order{{Field: "s"}}, Limit: 1})
	if got := s.get("a"); got[0].Index["s"] != long+"1" {
		t.Error("a long index value came back cut")
	}
}

func testDocumentTenants(t *testing.T, s *shelf) {
	other := *s
	other.tenant = unique("tenant")
	s.put(s.doc("a", map[string]any{"n": int64(1)}), other.doc("a", map[string]any{"n": int64(2)}), other.doc("b", map[string]any{"n": int64(1)}))
	s.find("a", projections.Query{CountTotal: true})
	other.find("a b", projections.Query{OrderBy: []projections.Order{{Field: "none"}}})
	other.find("b", projections.Query{Where: []projections.Where{{Field: "n", Op: "=", Value: int64(1)}}})
	if p := s.page(projections.Query{CountTotal: true}); p.Total != 1 {
		t.Errorf("total %d", p.Total)
	}
	s.delete("b", "a")
	other.find("a b", projections.Query{})
	nobody := *s
	nobody.tenant = unique("nobody")
	nobody.find("", projections.Query{CountTotal: true, OrderBy: []projections.Order{{Field: "n"}}})
	if len(nobody.get("a")) != 0 {
		t.Error("a stranger got a document")
	}
}

func testDrop(t *testing.T, s *shelf) {
	part, longer := *s, *s
	part.projection += ".part"
	longer.projection += "0" // "x@10" must survive the drop of "x@1"
	longer.at = 0
	var docs []projections.Document
	for i := range 1200 {
		docs = append(docs, s.doc(fmt.Sprintf("%04d", i), map[string]any{"n": int64(i), "m": "x"}))
	}
	s.put(append(docs, part.doc("p", map[string]any{"n": int64(1)}))...)
	longer.put(longer.doc("kept", map[string]any{"n": int64(1)}))
	if err := s.d.Drop(t.Context(), s.projection); err != nil {
		t.Fatal(err)
	}
	s.find("", projections.Query{CountTotal: true})
	part.find("", projections.Query{})
	longer.find("kept", projections.Query{})
	if at, err := s.d.Checkpoint(t.Context(), s.projection); err != nil || at != "" {
		t.Fatalf("checkpoint %q after drop: %v", at, err)
	}
	if at, err := s.d.Checkpoint(t.Context(), longer.projection); err != nil || at == "" {
		t.Fatalf("checkpoint of the other projection %q: %v", at, err)
	}
	s.at = 0
	s.put(s.doc("new", map[string]any{"n": int64(5)}))
	s.find("new", projections.Query{OrderBy: []projections.Order{{Field: "m"}, {Field: "n"}}})
	if p := s.page(projections.Query{CountTotal: true}); p.Total != 1 {
		t.Errorf("total %d", p.Total)
	}
	if err := s.d.Drop(t.Context(), unique("never")); err != nil {
		t.Fatal(err)
	}
}

func testBodies(t *testing.T, s *shelf) {
	big := strings.Repeat("0123456789", 200_000)
	for i, body := range []string{"", "{}", `{"nul":"\u0000","half":"\ud83d"}`, "{\"s\":\"" + big + "\"}"} {
		d := s.doc(fmt.Sprint(i), map[string]any{"n": int64(i)})
		d.Body = []byte(body)
		s.put(d)
		if got := s.get(d.ID); string(got[0].Body) != body {
			t.Errorf("body %d came back as %.80q", i, got[0].Body)
		}
	}
	for _, d := range s.page(projections.Query{}).Documents {
		if d.ID == "3" && len(d.Body) != len(big)+8 {
			t.Errorf("the large body has %d bytes", len(d.Body))
		}
	}
}

// testRandom compares many lists with a plain sort of all documents.
func testRandom(t *testing.T, s *shelf) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all := map[string]projections.Document{}
	for range 12 {
		b := s.step()
		for range 60 {
			id := fmt.Sprintf("%03d", rnd.IntN(400))
			if slices.ContainsFunc(b.Put, func(d projections.Document) bool { return d.ID == id }) {
				continue
			}
			if rnd.IntN(6) == 0 {
				b.Delete = append(b.Delete, s.key(id))
				delete(all, id)
				continue
			}
			index := map[string]any{}
			for f, n := range map[string]int{"two": 2, "ten": 10, "many": 100000} {
				if rnd.IntN(8) > 0 {
					index[f] = int64(rnd.IntN(n))
				}
			}
			if rnd.IntN(3) > 0 {
				index["text"] = []string{"red", "Green", "blue", ""}[rnd.IntN(4)]
			}
			if slices.Contains(b.Delete, s.key(id)) {
				continue
			}
			d := s.doc(id, index)
			b.Put = append(b.Put, d)
			all[id] = d
		}
		s.commit(b)
	}
	fields := []string{"two", "ten", "many", "text", "none"}
	for range 400 {
		q := projections.Query{Limit: 1 + rnd.IntN(40), CountTotal: true}
		for range rnd.IntN(4) {
			q.OrderBy = append(q.OrderBy, projections.Order{Field: fields[rnd.IntN(5)], Desc: rnd.IntN(2) == 0})
		}
		for range rnd.IntN(3) {
			w := projections.Where{Field: fields[rnd.IntN(4)], Op: []string{"=", "=", "<", "<=", ">", ">="}[rnd.IntN(6)], Value: int64(rnd.IntN(10))}
			if w.Field == "text" {
				w.Op, w.Value = []string{"=", "contains"}[rnd.IntN(2)], []string{"red", "e"}[rnd.IntN(2)]
			}
			if w.Field == "two" {
				w.Value = int64(rnd.IntN(2))
			}
			q.Where = append(q.Where, w)
		}
		var want []projections.Document
		for _, d := range all {
			if passes(d, q.Where) {
				want = append(want, d)
			}
		}
		slices.SortFunc(want, func(a, b projections.Document) int { return before(q.OrderBy, a, b) })
		s.walk(names(want), q)
		if p := s.page(q); p.Total != len(want) {
			t.Errorf("total of %+v is %d, want %d", q, p.Total, len(want))
		}
		q.Offset = rnd.IntN(30)
		s.find(names(want[min(q.Offset, len(want)):min(q.Offset+q.Limit, len(want))]), q)
		if t.Failed() {
			return
		}
	}
}

func passes(d projections.Document, where []projections.Where) bool {
	for _, w := range where {
		v, ok := d.Index[w.Field]
		if !ok {
			return false
		}
		if text, is := v.(string); is {
			if w.Op == "=" && text != w.Value || w.Op == "contains" && !strings.Contains(strings.ToLower(text), w.Value.(string)) {
				return false
			}
			continue
		}
		c := cmp.Compare(v.(int64), w.Value.(int64))
		if !map[string]bool{"=": c == 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[w.Op] {
			return false
		}
	}
	return true
}

func before(orders []projections.Order, a, b projections.Document) int {
	for _, o := range orders {
		x, xok := a.Index[o.Field]
		y, yok := b.Index[o.Field]
		c := 0
		switch {
		case xok != yok:
			c = map[bool]int{true: 1, false: -1}[xok]
		case !xok:
		default:
			if s, is := x.(string); is {
				c = cmp.Compare(s, y.(string))
			} else {
				c = cmp.Compare(x.(int64), y.(int64))
			}
		}
		if o.Desc {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.ID, b.ID)
}
