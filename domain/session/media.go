package session

import (
	"slices"
	"time"

	"refold/domain"
)

// Bounds of what comes with one message, and of what a session keeps.
const (
	MaxImages      = 5
	MaxFiles       = 5
	MaxAttachments = 200
)

// Status of an attachment.
const (
	AttachmentReady  = "ready"
	AttachmentFailed = "failed"
)

// AttachmentAdded is a file that was uploaded to the session, to be named by
// later messages. Problem says why it failed.
type AttachmentAdded struct {
	domain.Media
	Status  string    `json:"status"`
	Problem string    `json:"problem,omitempty"`
	At      time.Time `json:"at"`
}

// AttachmentRemoved takes an attachment off the list. Messages that have named it
// keep it.
type AttachmentRemoved struct {
	Attachment string    `json:"attachment"`
	At         time.Time `json:"at"`
}

func (AttachmentAdded) event()   {}
func (AttachmentRemoved) event() {}

// Attach adds a file to the session.
type Attach struct{ AttachmentAdded }

// Detach takes it off the list.
type Detach struct{ AttachmentRemoved }

func (Attach) command() {}
func (Detach) command() {}

// Refusals.
var (
	ErrNoAttachment       = domain.Reject(domain.Missing, "attachment_not_found", "the session has no such attachment")
	ErrTooManyAttachments = domain.Reject(domain.Conflict, "too_many_attachments", "the session has as many attachments as it can hold; delete some")
)

// Attachment finds an attachment of the session.
func (s State) Attachment(id string) (AttachmentAdded, bool) {
	i := slices.IndexFunc(s.Attachments, func(a AttachmentAdded) bool { return a.ID == id })
	if i < 0 {
		return AttachmentAdded{}, false
	}
	return s.Attachments[i], true
}

// decideMedia decides the commands about attachments; the session is live.
func decideMedia(s State, c Command) ([]Event, bool, error) {
	switch c := c.(type) {
	case Attach:
		if len(s.Attachments) >= MaxAttachments {
			return nil, true, ErrTooManyAttachments
		}
		return []Event{c.AttachmentAdded}, true, nil
	case Detach:
		if _, found := s.Attachment(c.Attachment); !found {
			return nil, true, ErrNoAttachment
		}
		return []Event{c.AttachmentRemoved}, true, nil
	}
	return nil, false, nil
}

func evolveMedia(s State, e Event) State {
	switch e := e.(type) {
	case AttachmentAdded:
		s.Attachments = append(slices.Clip(s.Attachments), e)
	case AttachmentRemoved:
		s.Attachments = slices.DeleteFunc(slices.Clone(s.Attachments), func(a AttachmentAdded) bool { return a.ID == e.Attachment })
	}
	return s
}
