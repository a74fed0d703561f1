package api

import "net/http"

// answering gives the body of an answer with its status, or what went wrong. It
// may set headers.
type answering func(w http.ResponseWriter, r *http.Request) (status int, body any, err error)

// answer makes a handler of it.
func (a *API) answer(f answering) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, b, err := f(w, r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		respond(w, status, b)
	}
}

func done(message string) body { return body{"success": true, "message": message} }

// nested is a page in the reference's other form: the list lies within data.
func nested[T any](rows []T, page, size, total int) body {
	if rows == nil {
		rows = []T{}
	}
	return ok(body{"data": rows, "total": total, "page": page, "page_size": size})
}
