package viewquery

import "time"

// Within makes queries end sooner.
func (e *Engine) Within(d time.Duration) *Engine {
	e.time = d
	return e
}
