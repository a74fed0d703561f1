package commands

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/session"
)

// PostMessage is a person's message to a session.
type PostMessage struct {
	Session   string
	Query     string // 1 to session.MaxQuery runes, not blank
	Agent     string // id
	Model     string // overrides the agent's, "" = not
	Channel   string
	Workspace string // absolute directory, already allowed; "" = none
}

// Posted answers PostMessage. Run is also the id of the assistant's message.
type Posted struct {
	Message, Run string
	Position     event.Position
}

// ErrAgentNotFound says that the tenant has no such agent.
var ErrAgentNotFound = domain.Reject(domain.Invalid, "agent_not_found", "there is no such agent; see GET /api/v1/agents")

// PostMessage records the message; handlers/turns.go starts its run. While the
// session's newest run is in progress it is refused with ErrRunInProgress.
func (c *Commands) PostMessage(ctx context.Context, by Caller, p PostMessage) (Posted, error) {
	if strings.TrimSpace(p.Query) == "" {
		return Posted{}, domain.Reject(domain.Invalid, "empty_query", "the question is empty; write one in \"query\"")
	}
	if !utf8.ValidString(p.Query) {
		return Posted{}, domain.Reject(domain.Invalid, "bad_query", "the question is not valid UTF-8")
	}
	if n := utf8.RuneCountInString(p.Query); n > session.MaxQuery {
		return Posted{}, domain.Reject(domain.Invalid, "query_too_long", fmt.Sprintf("the question has %d characters, at most %d are taken; shorten it or put the text into a file", n, session.MaxQuery))
	}
	if _, ok, err := c.Catalog.Agent(ctx, by.Tenant, p.Agent); err != nil {
		return Posted{}, err
	} else if !ok {
		return Posted{}, ErrAgentNotFound
	}
	out := Posted{Message: c.NewID(), Run: c.NewID()}
	pos, err := c.onSession(ctx, by, p.Session, "PostMessage", func(s session.State) (session.Command, error) {
		cmd := session.Post{MessagePosted: session.MessagePosted{Message: out.Message, Run: out.Run, Request: by.Request, Query: p.Query,
			Agent: p.Agent, Model: p.Model, Channel: p.Channel, Workspace: p.Workspace, Principal: by.Principal, At: c.Now().UTC()}}
		last := s.LastRun()
		if last == "" {
			return cmd, nil
		}
		r, err := c.OpenRun(ctx, by.Tenant, last)
		if err != nil {
			return nil, err
		}
		if r.State.Over() {
			cmd.EndedRun = last
		}
		return cmd, nil
	})
	out.Position = pos
	return out, err
}
