package handlers

import (
	"sync"

	"refold/domain/event"
)

// turns is work that waits. Tenants take turns, and so do the bases of a tenant,
// so that who brings much does not keep the others waiting. Nothing is in it
// twice.
type turns struct {
	mu      sync.Mutex
	tenants rota[string, *rota[string, *[]Owed]]
	waiting map[event.Stream]bool
	news    chan struct{} // holds one token while there is work that nobody has been told of
}

// rota is a list of keys that take turns, each with its value.
type rota[K comparable, V any] struct {
	order  []K
	values map[K]V
}

func (r *rota[K, V]) get(k K, fresh func() V) V {
	if v, ok := r.values[k]; ok {
		return v
	}
	if r.values == nil {
		r.values = map[K]V{}
	}
	r.values[k] = fresh()
	r.order = append(r.order, k)
	return r.values[k]
}

// turn gives the first key and moves it to the end, or drops it if it has
// nothing left after use.
func (r *rota[K, V]) turn(use func(V) (left bool)) {
	k := r.order[0]
	r.order = r.order[1:]
	if use(r.values[k]) {
		r.order = append(r.order, k)
		return
	}
	delete(r.values, k)
}

func newTurns() *turns {
	return &turns{waiting: map[event.Stream]bool{}, news: make(chan struct{}, 1)}
}

func (l *turns) push(o Owed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[o.Stream] {
		return
	}
	l.waiting[o.Stream] = true
	bases := l.tenants.get(o.Stream.Tenant, func() *rota[string, *[]Owed] { return &rota[string, *[]Owed]{} })
	list := bases.get(o.Base, func() *[]Owed { return &[]Owed{} })
	*list = append(*list, o)
	l.tell()
}

func (l *turns) tell() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// pop takes what is next; false if nothing waits.
func (l *turns) pop() (o Owed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tenants.order) == 0 {
		return o, false
	}
	l.tenants.turn(func(bases *rota[string, *[]Owed]) bool {
		bases.turn(func(list *[]Owed) bool {
			o, *list = (*list)[0], (*list)[1:]
			return len(*list) > 0
		})
		return len(bases.order) > 0
	})
	delete(l.waiting, o.Stream)
	if len(l.tenants.order) > 0 {
		l.tell()
	}
	return o, true
}

func (l *turns) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
