package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tenant"
	"refold/infra/app"
)

// reading opens the record for reading, beside a running server if there is one.
func (e *env) reading(f func(event.Store) error) error {
	if e.config.Store == "" {
		if _, err := os.Stat(app.DatabaseFile(e.config.Data)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no record in %s yet; refold serve begins one, or refold ask; --data names another directory", e.config.Data)
		}
	}
	db, err := app.OpenDatabase(e.ctx, e.config, true)
	if err != nil {
		return err
	}
	err = f(db.Events())
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	return err
}

// Events prints the log.
type Events struct {
	Follow   bool     `help:"Wait for more." short:"f"`
	After    string   `help:"Begin after this position." placeholder:"POSITION"`
	Category []string `help:"Only these categories (session, run, delta); repeatable." placeholder:"NAME"`
	Only     string   `help:"Only this run." name:"run" placeholder:"ID"`
	Limit    int      `help:"Stop after so many events; 0 = no limit."`
}

// Help gives examples.
func (Events) Help() string {
	return `Always JSON, one event a line.

Examples:
  refold events | jq -r '.type' | sort | uniq -c
  refold events --follow --category run
  refold events --run ID`
}

// eventJSON is an event as a line of JSON.
type eventJSON struct {
	Position event.Position  `json:"position"`
	Tenant   string          `json:"tenant"`
	Category string          `json:"category"`
	Stream   string          `json:"stream"`
	Version  int64           `json:"version"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Schema   int             `json:"schema"`
	Time     time.Time       `json:"time"`
	Meta     event.Metadata  `json:"meta"`
	Data     json.RawMessage `json:"data"`
}

func eventLine(r event.Raw) eventJSON {
	data := json.RawMessage(r.Data)
	if !json.Valid(data) {
		data, _ = json.Marshal(string(r.Data)) // a string always encodes
	}
	return eventJSON{r.Position, r.Stream.Tenant, r.Stream.Category, r.Stream.ID, r.Version, r.ID, r.Type, r.Schema, r.Time, r.Meta, data}
}

// Run prints events.
func (v Events) Run(e *env) error {
	if v.Limit < 0 {
		return usage("--limit must be at least 1, or 0 for no limit")
	}
	return e.reading(func(s event.Store) error {
		at, printed := event.Position(v.After), 0
		f := event.Filter{Categories: v.Category}
		for {
			batch, upTo, err := s.Scan(e.ctx, at, f, 0)
			if err != nil {
				switch {
				case v.Follow && e.ctx.Err() != nil:
					return nil // Ctrl-C is how following ends
				case errors.Is(err, event.ErrInvalid) && string(at) == v.After:
					return usage("--after %q is no position of this record; the field \"position\" of the events that are printed is one", v.After)
				}
				return err
			}
			for _, r := range batch {
				if v.Only != "" && r.Stream.ID != v.Only && run.DeltaRun(r.Stream.ID) != v.Only {
					continue
				}
				if e.line(eventLine(r)); e.out.err != nil {
					return nil
				}
				if printed++; v.Limit > 0 && printed >= v.Limit {
					return nil
				}
			}
			if upTo != at {
				at = upTo
				continue
			}
			switch {
			case !v.Follow && printed == 0 && v.Only != "" && v.After == "" && len(v.Category) == 0:
				return fmt.Errorf("nothing of a run %q is in %s; see: refold events --category run", v.Only, e.config.Data)
			case !v.Follow:
				return nil
			}
			if err := s.Wait(e.ctx, at); err != nil {
				if e.ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	})
}

// Replay prints a run step by step.
type Replay struct {
	ID string `arg:"" help:"Id of the run (it is the assistant message's id)." name:"run"`
	At int64  `help:"Show the state after this version only." placeholder:"N"`
}

// Help gives examples.
func (Replay) Help() string {
	return `Folds the run's events one by one and prints each with who caused it, the state
after it, and what the outside world owed at that moment.

Examples:
  refold replay RUN
  refold replay RUN --at 7
  refold replay RUN --json | jq .due`
}

// step is a replayed event.
type step struct {
	Version int64          `json:"version"`
	Event   eventJSON      `json:"event"`
	State   map[string]any `json:"state"`
	Due     []string       `json:"due"`
}

// Run replays.
func (v Replay) Run(e *env) error {
	return e.reading(func(s event.Store) error {
		log := event.Log[run.Event]{Store: s, Codec: run.Codec, Category: run.Category}
		recs, err := log.Load(e.ctx, tenant.Name(e.cli.Tenant), v.ID, 0)
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			return fmt.Errorf("tenant %d has no run %q in %s; see: refold events --category run", e.cli.Tenant, v.ID, e.config.Data)
		}
		if v.At < 0 || v.At > int64(len(recs)) {
			return usage("--at must be from 1 to %d", len(recs))
		}
		var state run.State
		for i, rec := range recs {
			state = run.Evolve(state, rec.Event)
			if v.At > 0 && rec.Version != v.At {
				continue
			}
			// Between the events of one append nothing is due: they became true
			// together.
			whole := i == len(recs)-1 || !recs[i+1].Time.Equal(rec.Time) || recs[i+1].Meta != rec.Meta
			data, err := json.Marshal(rec.Event)
			if err != nil {
				return err
			}
			st := step{Version: rec.Version, State: stateView(state), Due: []string{},
				Event: eventLine(event.Raw{New: event.New{ID: rec.ID, Type: rec.Type, Schema: rec.Schema, Time: rec.Time, Meta: rec.Meta, Data: data},
					Stream: rec.Stream, Version: rec.Version, Position: rec.Position})}
			if whole {
				st.Due = dueView(state, rec.Time)
			}
			if e.cli.JSON {
				e.line(st)
			} else {
				e.printStep(st)
			}
		}
		return nil
	})
}

func stateView(s run.State) map[string]any {
	out := map[string]any{"round": s.Round, "model_calls": s.ModelCalls, "open": !s.Over()}
	if s.Model != nil {
		out["model_call"] = map[string]any{"call": s.Model.Call, "attempt": s.Model.Attempt, "owner": s.Model.Owner}
	}
	if len(s.Open) > 0 {
		var calls []string
		for _, c := range s.Open {
			status := c.Status
			if c.Approval != "" {
				status += ", waits for a person"
			}
			calls = append(calls, c.Name+" "+c.Call+": "+status)
		}
		out["calls"] = calls
	}
	if s.Synthesis != "" {
		out["synthesis"] = s.Synthesis
	}
	if s.Over() {
		out["outcome"], out["end_reason"] = s.Outcome, s.EndReason
	}
	return out
}

// dueView lists what was owed at a moment, seen by a process that owns nothing.
func dueView(s run.State, at time.Time) []string {
	out := []string{}
	for _, d := range run.Due(s, run.Moment{Now: at, Self: "replay"}) {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T%+v", d, d), "run."))
	}
	return out
}

func (e *env) printStep(st step) {
	who := st.Event.Meta.Actor
	if who == "" {
		who = "?"
	}
	fmt.Fprintf(e.out, "%4d  %s  %s  by %s (%s)\n", st.Version, st.Event.Time.Format("15:04:05.000"), st.Event.Type, who, st.Event.Meta.Command)
	fmt.Fprintf(e.out, "      %s\n", plainText(cutLine(string(st.Event.Data), 400)))
	state, err := json.Marshal(st.State)
	if err != nil {
		state = []byte("?")
	}
	fmt.Fprintf(e.out, "      state %s\n", plainText(string(state)))
	if len(st.Due) > 0 {
		fmt.Fprintf(e.out, "      due   %s\n", plainText(strings.Join(st.Due, ", ")))
	}
}

func cutLine(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
