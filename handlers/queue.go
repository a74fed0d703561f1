package handlers

import (
	"context"
	"time"
)

// queueRetry is the pause before a queued message is looked for again when the
// store was away.
const queueRetry = time.Second

// TakeQueued posts, in the background, the message of a session that waits
// longest, if one does and no run is in progress. The runner calls it when a run
// ends; the start of a process calls it for every session with a queue.
func (r *Runner) TakeQueued(ctx context.Context, tenant, sessionID string) {
	if r.isEnding() {
		return
	}
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		if err := r.Commands.TakeQueued(ctx, tenant, sessionID); err != nil && ctx.Err() == nil {
			r.Log.Error("take a queued message", "tenant", tenant, "session", sessionID, "error", err, "again_in", queueRetry)
			r.Clock.AfterFunc(queueRetry, func() { r.TakeQueued(ctx, tenant, sessionID) })
		}
	}()
}

func (r *Runner) isEnding() bool {
	r.mu.Lock()
	ending := r.ending
	r.mu.Unlock()
	select {
	case <-ending:
		return true
	default:
		return false // also before Run
	}
}
