package commands

import (
	"context"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/session"
)

// ErrNoImages says that the model of a message can't be shown images.
var ErrNoImages = domain.Reject(domain.Invalid, "images_not_supported",
	`the model sees no images: set "vision": true for it in the configuration if it does, or name a model that describes images in "vlm"`)

// ErrSteerMedia says that a run in progress takes text only.
var ErrSteerMedia = domain.Reject(domain.Conflict, "media_not_steered",
	`a run in progress takes text only; send images and files with on_busy "enqueue" or "interrupt"`)

// CheckImages refuses images for a message to an agent (and model, "" = the
// agent's) that can't be shown any.
func (c *Commands) CheckImages(ctx context.Context, tenant, agentID, model string) error {
	a, ok, err := c.Catalog.Agent(ctx, tenant, agentID)
	if err != nil {
		return err
	}
	if !ok {
		return ErrAgentNotFound
	}
	if model == "" {
		model = a.Model
	}
	if c.Images == nil {
		return ErrNoImages
	}
	return c.Images(model)
}

// Attach adds a file, whose content is stored, to a session and gives its id.
func (c *Commands) Attach(ctx context.Context, by Caller, sessionID string, a session.AttachmentAdded) (session.AttachmentAdded, event.Position, error) {
	a.ID, a.At = c.idFor(by, "attachment"), c.Now().UTC()
	pos, err := c.onSession(ctx, by, sessionID, "Attach", func(s session.State) (session.Command, error) {
		return session.Attach{AttachmentAdded: a}, nil
	})
	return a, pos, err
}

// Detach takes an attachment off a session's list.
func (c *Commands) Detach(ctx context.Context, by Caller, sessionID, id string) (event.Position, error) {
	return c.onSession(ctx, by, sessionID, "Detach", func(session.State) (session.Command, error) {
		return session.Detach{AttachmentRemoved: session.AttachmentRemoved{Attachment: id, At: c.Now().UTC()}}, nil
	})
}
