package commands

import (
	"cmp"
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
	Workspace string         // absolute directory, already allowed; "" = none
	NoTitle   bool           // the run must not give the session a title
	Images    []domain.Media // already stored; at most session.MaxImages
	Files     []domain.Media // already stored; at most session.MaxFiles
	Sources   *session.Sources
	Web       bool
}

// Posted answers PostMessage. Run is also the id of the assistant's message.
// Queued and Steered: see Send.
type Posted struct {
	Message, Run string
	Queued       bool
	Steered      bool
	Position     event.Position
}

// ErrAgentNotFound says that the tenant has no such agent.
var ErrAgentNotFound = domain.Reject(domain.Invalid, "agent_not_found", "there is no such agent; see GET /api/v1/agents")

// PostMessage records the message; the runner starts its run. While the
// session's newest run is in progress, or other messages wait, it is refused
// with ErrRunInProgress.
func (c *Commands) PostMessage(ctx context.Context, by Caller, p PostMessage) (Posted, error) {
	m, err := c.message(ctx, by, p)
	if err != nil {
		return Posted{}, err
	}
	out := Posted{Message: m.Message, Run: m.Run}
	out.Position, err = c.onSession(ctx, by, p.Session, "PostMessage", func(s session.State) (session.Command, error) {
		m.At = c.Now().UTC()
		cmd := session.Post{MessagePosted: m}
		last := s.LastRun()
		if last == "" {
			return cmd, nil
		}
		ended, err := c.ended(ctx, by.Tenant, last)
		if ended {
			cmd.EndedRun = last
		}
		return cmd, err
	})
	return out, err
}

// message checks what a person sends and makes the fact of it.
func (c *Commands) message(ctx context.Context, by Caller, p PostMessage) (session.MessagePosted, error) {
	if err := checkQuery(p.Query); err != nil {
		return session.MessagePosted{}, err
	}
	a, ok, err := c.Catalog.Agent(ctx, by.Tenant, p.Agent)
	if err != nil {
		return session.MessagePosted{}, err
	} else if !ok {
		return session.MessagePosted{}, ErrAgentNotFound
	}
	if c.Models != nil {
		if err := c.Models(cmp.Or(p.Model, a.Model)); err != nil {
			return session.MessagePosted{}, err
		}
	}
	if len(p.Images) > 0 {
		if err := c.CheckImages(ctx, by.Tenant, p.Agent, p.Model); err != nil {
			return session.MessagePosted{}, err
		}
	}
	if p.Sources != nil {
		if n := len(p.Sources.Bases) + len(p.Sources.Documents) + len(p.Sources.Tags); n > session.MaxSources {
			return session.MessagePosted{}, domain.Reject(domain.Invalid, "too_many_sources", fmt.Sprintf("%d knowledge bases, documents and tags are named, at most %d can be; name a whole base instead", n, session.MaxSources))
		}
		if _, err := c.Catalog.Scope(ctx, by.Tenant, a, p.Sources, p.Workspace, true); err != nil {
			return session.MessagePosted{}, err
		}
	}
	return session.MessagePosted{Sources: p.Sources, Web: p.Web, Images: p.Images, Files: p.Files, Message: c.idFor(by, "message"), Run: c.idFor(by, "run"), Request: by.Request, Query: p.Query, Agent: p.Agent,
		Model: p.Model, Channel: p.Channel, Workspace: p.Workspace, NoTitle: p.NoTitle, Principal: by.Principal, At: c.Now().UTC()}, nil
}

func checkQuery(query string) error {
	if strings.TrimSpace(query) == "" {
		return domain.Reject(domain.Invalid, "empty_query", "the question is empty; write one in \"query\"")
	}
	if !utf8.ValidString(query) {
		return domain.Reject(domain.Invalid, "bad_query", "the question is not valid UTF-8")
	}
	if n := utf8.RuneCountInString(query); n > session.MaxQuery {
		return domain.Reject(domain.Invalid, "query_too_long", fmt.Sprintf("the question has %d characters, at most %d are taken; shorten it or put the text into a file", n, session.MaxQuery))
	}
	return nil
}
