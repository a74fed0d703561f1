package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
)

// voyager follows one run from server to server: at each death of the one that it
// reads from, and now and then in between, it goes on at the other.
type voyager struct {
	traveller
	x     *twins
	side  int
	life  int
	key   string // posts with this Idempotency-Key
	rng   *rand.Rand
	moves int
	lines map[string]int // approvals of lines
}

var errMove = errors.New("the reader moves")

// again repeats f until it works, at the other server if there is one.
func (v *voyager) again(ctx context.Context, f func(client) error) error {
	for {
		c, side, life, err := v.x.client(ctx, v.side)
		if err != nil {
			return err
		}
		v.side, v.life = side, life
		if err = f(c); err == nil {
			return nil
		}
		if ctx.Err() != nil || !v.x.died(side, life) {
			return err
		}
		v.side = 1 - side
	}
}

func (v *voyager) sail(ctx context.Context) error {
	defer v.settled.Wait()
	if err := v.again(ctx, func(c client) error {
		a, err := c.try(ctx, "POST", "/api/v1/sessions", map[string]any{"title": "pair"})
		if err != nil {
			return err
		}
		var s struct{ Data struct{ ID string } }
		if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 201 {
			return fmt.Errorf("HTTP %d %s: %w", a.status, a.body, err)
		}
		v.session = s.Data.ID
		return nil
	}); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	var r *reader
	if err := v.again(ctx, func(c client) (err error) {
		r, err = v.send(ctx, c)
		return err
	}); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	for {
		err := v.watch(ctx, r)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, errMove) && !v.x.died(v.side, v.life) {
			return fmt.Errorf("the stream of a living server broke after %d frames: %w", len(v.frames), err)
		}
		v.moves++
		v.side = 1 - v.side
		if err := v.again(ctx, func(c client) (err error) {
			last, path := "", continued(v.session, v.run)
			if len(v.frames) > 0 {
				last = v.frames[len(v.frames)-1].id
			}
			if v.byRoute {
				path = "/api/v1/sessions/" + v.session + "/events"
			}
			r, err = c.read(ctx, path, last)
			return err
		}); err != nil {
			return fmt.Errorf("follow after %d frames: %w", len(v.frames), err)
		}
	}
}

// send posts the message. A repetition is known by its key, or by what the
// session has.
func (v *voyager) send(ctx context.Context, c client) (*reader, error) {
	if v.key == "" {
		r, err := v.post(ctx, c)
		var refused *statusError
		if errors.As(err, &refused) && refused.status == http.StatusConflict { // posted, and not in the view yet
			r, err = v.post(ctx, c)
		}
		return r, err
	}
	r, err := c.with("Idempotency-Key", v.key).stream(ctx, "POST", "/api/v1/agent-chat/"+v.session, map[string]any{
		"query": fmt.Sprintf("tell story %d", v.story.number), "agent_id": "builtin-smart-reasoning", "agent_enabled": true}, "")
	if err == nil {
		v.run = r.run()
	}
	return r, err
}

// watch reads to the terminal frame.
func (v *voyager) watch(ctx context.Context, r *reader) error {
	defer r.close()
	for {
		f, err := r.next()
		if err != nil {
			return err
		}
		if f.event == "resync" {
			v.t.Errorf("story %d: resync: %s", v.story.number, f.raw)
		}
		v.frames = append(v.frames, f)
		if f.Type == "tool_approval_required" {
			v.answer(ctx, f)
		}
		if f.terminal() {
			return nil
		}
		v.x.tick(1)
		if v.rng.Intn(50) == 0 {
			return errMove
		}
	}
}

// answer decides as a careful person would, twice: at both servers at once. The
// decision that is not the first is refused.
func (v *voyager) answer(ctx context.Context, f frame) {
	var args struct{ Line string }
	if err := json.Unmarshal([]byte(f.text("args_json")), &args); err != nil || f.text("trigger") != "recovery" {
		v.t.Errorf("an approval that nobody should ask for: %s", f.raw)
		return
	}
	decision := "approve"
	if count(v.t, v.ledger)[args.Line] > 0 {
		decision = "reject"
		v.rejected++
	} else {
		v.approved++
		v.lines[args.Line]++
	}
	for side := range 2 {
		at := &voyager{traveller: traveller{t: v.t}, x: v.x, side: side}
		v.settled.Go(func() {
			if err := at.again(ctx, func(c client) error {
				a, err := c.try(ctx, "POST", resolvePath(f.text("pending_id")), map[string]any{"decision": decision})
				if err != nil || a.status == 200 || a.status == 400 && strings.Contains(a.body, "already_resolved") {
					return err
				}
				return fmt.Errorf("HTTP %d %s", a.status, a.body)
			}); err != nil {
				v.t.Errorf("story %d: %s: %v", v.story.number, decision, err)
			}
		})
	}
}
