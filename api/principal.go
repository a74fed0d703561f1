package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/key"
	"refold/domain/knowledge"
	"refold/domain/run"
	"refold/domain/session"
	tenants "refold/domain/tenant"
	"refold/projections"
)

// TenantHeader names the tenant of a request, as a number.
const TenantHeader = "X-Tenant-ID"

// principal is who asks, and for which tenant.
type principal struct {
	tenant string
	name   string                // for the record
	local  bool                  // this machine's own user, on a server that asks for no key
	proved bool                  // this machine's own user, by the local key
	key    *projections.KeyEntry // nil = the operator, who owns every tenant
	route  string                // method and pattern, "" if there is no such route
	idem   idem
}

// idem is what the request is in the eyes of Idempotency-Key.
type idem struct {
	reservation string
	replay      string // run whose stream is the answer; "" = none
	recorder    *recorder
}

// asking gives the principal of a request; nil outside of /api/v1.
func asking(r *http.Request) *principal {
	p, _ := r.Context().Value(principalKey).(*principal)
	return p
}

// tenant is the request's tenant. Outside of /api/v1 it is "", which no store
// takes.
func tenant(r *http.Request) string {
	if p := asking(r); p != nil {
		return p.tenant
	}
	return ""
}

// tenantNumber is the request's tenant as the wire has it.
func tenantNumber(r *http.Request) int64 { return tenants.Number(tenant(r)) }

func caller(r *http.Request) commands.Caller {
	by := commands.Caller{Tenant: tenant(r), Request: requestID(r), Trace: trace(r), Versions: versions(r)}
	if p := asking(r); p != nil {
		by.Principal, by.Reservation = p.name, p.idem.reservation
	}
	return by
}

// versions reads If-Match: nil if it is absent or *, else the versions that it
// names. A weak or foreign tag matches none.
func versions(r *http.Request) []int64 {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return nil
	}
	out := []int64{}
	for _, v := range values {
		for tag := range strings.SplitSeq(v, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" {
				return nil
			}
			if n, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64); err == nil && etag(n) == tag {
				out = append(out, n)
			}
		}
	}
	return out
}

// etag is the entity tag of a version of a session.
func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }

// refusal is an answer of the gate, with the reference's bare body.
type refusal struct {
	status  int
	message string
}

// authenticate finds out who asks, for which tenant, and whether they may.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, no, err := a.identify(r)
		if err == nil && no == nil {
			no, err = a.chooseTenant(r, p)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if no == nil {
			p.route = a.routeOf(r)
			no = permitted(p)
		}
		if no != nil {
			respond(w, no.status, body{"error": no.message})
			return
		}
		n := notes(r)
		n.tenant, n.by = p.tenant, p.name
		if p.key != nil {
			a.used(r, p.key)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey, p)))
	})
}

// identify finds out who asks. The local key and the operator's own are
// compared; any other is looked up, which is the reading of one document.
func (a *API) identify(r *http.Request) (*principal, *refusal, error) {
	if a.LocalKey != "" && equal(r.Header.Get(LocalKeyHeader), a.LocalKey) {
		return &principal{tenant: domain.DefaultTenant, name: "user:local", proved: true}, nil, nil
	}
	token := r.Header.Get("X-API-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token == "" {
		token = bearer
	}
	if a.Key != "" && equal(token, a.Key) {
		return &principal{tenant: domain.DefaultTenant, name: "user:operator"}, nil, nil
	}
	if lookup, ok := key.LookupOf(token); ok {
		k, err := one[projections.KeyEntry](r.Context(), a, projections.Keys, domain.SystemTenant, lookup)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case k == nil || !key.Proves(token, k.Salt, k.Hash):
			return nil, &refusal{http.StatusUnauthorized, "this API key is not known here, or was revoked"}, nil
		case k.Grant.Expired(a.Commands.Now()):
			return nil, &refusal{http.StatusUnauthorized, "this API key has expired; ask for a new one"}, nil
		}
		return &principal{tenant: k.Tenant, name: fmt.Sprintf("key:%s/%d", k.Tenant, k.Number), key: k}, nil, nil
	}
	if a.Key == "" { // the guard has seen that the request comes from this machine
		return &principal{tenant: domain.DefaultTenant, name: "user:local", local: true}, nil, nil
	}
	if token != "" {
		return nil, &refusal{http.StatusUnauthorized, "this API key is wrong: it is neither the server's own nor one of a tenant (sk-...); check it for missing or extra characters"}, nil
	}
	return nil, &refusal{http.StatusUnauthorized, "an API key is needed: send it as X-API-Key"}, nil
}

// chooseTenant obeys X-Tenant-ID. A key stays in its tenant.
func (a *API) chooseTenant(r *http.Request, p *principal) (*refusal, error) {
	named := r.Header.Get(TenantHeader)
	if named == "" || named == p.tenant {
		return nil, nil
	}
	if tenants.Number(named) == 0 {
		return &refusal{http.StatusBadRequest, TenantHeader + " must be a positive integer: the number of a tenant"}, nil
	}
	if p.key != nil {
		return &refusal{http.StatusForbidden, "this API key belongs to another tenant than the one that " + TenantHeader + " names"}, nil
	}
	exists, err := a.tenantExists(r.Context(), named)
	if err != nil {
		return nil, err
	}
	if !exists {
		return &refusal{http.StatusForbidden, "there is no tenant " + named + " that you may use; see GET /api/v1/tenants/all"}, nil
	}
	p.tenant = named
	return nil, nil
}

// tenantExists asks the list; a tenant that was there once stays.
func (a *API) tenantExists(ctx context.Context, name string) (bool, error) {
	if name == domain.DefaultTenant {
		return true, nil
	}
	if _, known := a.tenants.Load(name); known {
		return true, nil
	}
	t, err := one[projections.TenantEntry](ctx, a, projections.Tenants, domain.SystemTenant, name)
	if err != nil || t == nil {
		return false, err
	}
	a.tenants.Store(name, struct{}{})
	return true, nil
}

// missings say that there is no such thing, by its name in the pattern of routes.
var missings = map[string]error{"{session}": session.ErrNotFound, "{message}": session.ErrNoMessage, "{run}": run.ErrNotStarted,
	"{approval}": run.ErrApprovalNotFound, "{attachment}": session.ErrNoAttachment, "{base}": knowledge.ErrNoBase, "{document}": knowledge.ErrNoDocument,
	"{chunk}": knowledge.ErrNoSuchChunk, "{tag}": knowledge.ErrNoTag, "{task}": knowledge.ErrNoImport}

// nameable answers at once that there is nothing under a path whose parts no id
// can have, so that no store is asked for it.
func (a *API) nameable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := strings.Split(asking(r).route, "/")
		for i, part := range strings.Split(r.URL.EscapedPath(), "/") {
			if id, err := url.PathUnescape(part); err == nil && isID(id) {
				continue
			}
			missing := notFound("there is no such thing: an id has at most " + itoa(event.MaxIDLen) + " bytes of UTF-8 and no control characters")
			if i < len(names) && missings[names[i]] != nil {
				missing = missings[names[i]]
			}
			a.fail(w, r, missing)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isID tells whether something can have the id.
func isID(id string) bool {
	return len(id) <= event.MaxIDLen && utf8.ValidString(id) && !strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// allowed lists the methods of the request's path.
func (a *API) allowed(r *http.Request) string {
	var out []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if a.routes.Match(chi.NewRouteContext(), method, routePath(r)) {
			out = append(out, method)
		}
	}
	return strings.Join(out, ", ")
}

func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// routeOf is the method and the pattern of the route that will answer.
func (a *API) routeOf(r *http.Request) string {
	ctx := chi.NewRouteContext()
	if a.routes == nil || !a.routes.Match(ctx, r.Method, routePath(r)) {
		return ""
	}
	return r.Method + " " + ctx.RoutePattern()
}

// uses remembers when keys were last used in this process.
type uses struct {
	mu sync.Mutex
	at map[string]time.Time
}

// used notes the use of a key: exactly in memory, to the hour on the record.
func (a *API) used(r *http.Request, k *projections.KeyEntry) {
	now := a.Commands.Now().UTC()
	hour := now.Truncate(time.Hour)
	a.uses.mu.Lock()
	if a.uses.at == nil {
		a.uses.at = map[string]time.Time{}
	}
	last := a.uses.at[k.Lookup]
	a.uses.at[k.Lookup] = now
	a.uses.mu.Unlock()
	if !last.Before(hour) || !k.UsedAt.Before(hour) {
		return
	}
	if err := a.Commands.UseKey(r.Context(), k.Number, k.Lookup); err != nil {
		a.Log.Warn("the use of an API key is not recorded", "key", k.Number, "tenant", k.Tenant, "error", err)
	}
}

func (a *API) lastUse(k projections.KeyEntry) time.Time {
	a.uses.mu.Lock()
	defer a.uses.mu.Unlock()
	if at := a.uses.at[k.Lookup]; at.After(k.UsedAt) {
		return at
	}
	return k.UsedAt
}
