package knowledge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain"
)

// Tag is a label of a base that documents can carry.
type Tag struct {
	ID        string // UUID
	Number    int64  // see NumberOf
	Name      string
	Color     string
	Order     int
	CreatedAt time.Time
	UpdatedAt time.Time
}

// TagCreated adds a tag to a base. Its number follows from its id.
type TagCreated struct {
	Tag    string    `json:"tag"`
	Number int64     `json:"number"`
	Name   string    `json:"name"`
	Color  string    `json:"color,omitempty"`
	Order  int       `json:"order,omitempty"`
	At     time.Time `json:"at"`
}

// TagChanged replaces name, color and order.
type TagChanged struct {
	Tag   string    `json:"tag"`
	Name  string    `json:"name"`
	Color string    `json:"color,omitempty"`
	Order int       `json:"order,omitempty"`
	At    time.Time `json:"at"`
}

// TagDeleted takes a tag away. Documents that carry its id carry nothing by it.
type TagDeleted struct {
	Tag string    `json:"tag"`
	At  time.Time `json:"at"`
}

func (TagCreated) baseEvent() {}
func (TagChanged) baseEvent() {}
func (TagDeleted) baseEvent() {}

// CreateTag adds a tag.
type CreateTag struct{ TagCreated }

// ChangeTag replaces what can change about a tag.
type ChangeTag struct{ TagChanged }

// DeleteTag takes a tag away.
type DeleteTag struct{ TagDeleted }

func (CreateTag) baseCommand() {}
func (ChangeTag) baseCommand() {}
func (DeleteTag) baseCommand() {}

// Refusals of tags.
var (
	ErrNoTag       = domain.Reject(domain.Missing, "tag_not_found", "there is no such tag in this knowledge base")
	ErrTagExists   = domain.Reject(domain.Conflict, "tag_exists", "this knowledge base has a tag of that name; use it, or choose another name")
	ErrTooManyTags = domain.Reject(domain.Conflict, "too_many_tags", fmt.Sprintf("a knowledge base has at most %d tags; delete some", MaxTags))
)

// Tag finds a tag by its id, or by its number in decimal.
func (b Base) Tag(id string) (Tag, bool) {
	i := slices.IndexFunc(b.Tags, func(t Tag) bool { return t.ID == id || fmt.Sprint(t.Number) == id })
	if i < 0 {
		return Tag{}, false
	}
	return b.Tags[i], true
}

// TagNamed finds a tag by its name, whatever the case.
func (b Base) TagNamed(name string) (Tag, bool) {
	name = line(name)
	i := slices.IndexFunc(b.Tags, func(t Tag) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return Tag{}, false
	}
	return b.Tags[i], true
}

// TagIDs gives the ids of tags that are named by id or number, each once, in
// order; ErrNoTag if one is unknown.
func (b Base) TagIDs(tags []string) ([]string, error) {
	var out []string
	for _, id := range tags {
		t, ok := b.Tag(id)
		if !ok {
			return nil, ErrNoTag
		}
		if !slices.Contains(out, t.ID) {
			out = append(out, t.ID)
		}
	}
	slices.Sort(out)
	return out, nil
}

func decideTag(b Base, c BaseCommand) ([]BaseEvent, error) {
	switch c := c.(type) {
	case CreateTag:
		e := c.TagCreated
		e.Number = NumberOf(e.Tag)
		var err error
		if e.Name, err = b.tagName("", e.Name, e.Color); err != nil {
			return nil, err
		}
		if len(b.Tags) >= MaxTags {
			return nil, ErrTooManyTags
		}
		return []BaseEvent{e}, nil
	case ChangeTag:
		t, ok := b.Tag(c.Tag)
		if !ok {
			return nil, ErrNoTag
		}
		e := c.TagChanged
		e.Tag = t.ID
		var err error
		if e.Name, err = b.tagName(t.ID, e.Name, e.Color); err != nil {
			return nil, err
		}
		if e.Name == t.Name && e.Color == t.Color && e.Order == t.Order {
			return nil, nil
		}
		return []BaseEvent{e}, nil
	case DeleteTag:
		t, ok := b.Tag(c.Tag)
		if !ok {
			return nil, ErrNoTag
		}
		e := c.TagDeleted
		e.Tag = t.ID
		return []BaseEvent{e}, nil
	}
	return nil, fmt.Errorf("knowledge: unknown command %T", c)
}

// tagName checks name and color of a tag, or of a new one ("").
func (b Base) tagName(id, name, color string) (string, error) {
	name = line(name)
	if n := runes(name); n == 0 || n > MaxTagName {
		return "", invalid("bad_tag_name", "the name of a tag has 1 to %d characters", MaxTagName)
	}
	if len(color) > MaxColor || color != line(color) {
		return "", invalid("bad_tag_color", "the color of a tag has at most %d bytes, for example #3b82f6", MaxColor)
	}
	if t, taken := b.TagNamed(name); taken && t.ID != id {
		return "", ErrTagExists.With(map[string]any{"tag_id": t.ID})
	}
	return name, nil
}

func evolveTag(b Base, e BaseEvent) Base {
	switch e := e.(type) {
	case TagCreated:
		b.Tags = append(slices.Clip(b.Tags), Tag{ID: e.Tag, Number: e.Number, Name: e.Name, Color: e.Color, Order: e.Order, CreatedAt: e.At, UpdatedAt: e.At})
	case TagChanged:
		b.Tags = slices.Clone(b.Tags)
		for i := range b.Tags {
			if t := &b.Tags[i]; t.ID == e.Tag {
				t.Name, t.Color, t.Order, t.UpdatedAt = e.Name, e.Color, e.Order, e.At
			}
		}
	case TagDeleted:
		b.Tags = slices.DeleteFunc(slices.Clone(b.Tags), func(t Tag) bool { return t.ID == e.Tag })
	}
	return b
}
