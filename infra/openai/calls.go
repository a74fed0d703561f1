package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"refold/handlers"
)

// callFragment is one element of a tool_calls list as a chunk brings it.
type callFragment struct {
	Index     *int
	ID        string
	Name      string
	Arguments string
	Metadata  map[string]json.RawMessage // fields of the call that we do not know
	Function  map[string]json.RawMessage // the same, of its function
	metaSize  int
}

func callFragments(raw json.RawMessage) []callFragment {
	var list []callFragment
	for _, object := range objects(raw) {
		var fields map[string]json.RawMessage
		if decodeLoosely(object, &fields) != nil {
			continue
		}
		var f callFragment
		var index float64
		if !blank(fields["index"]) && json.Unmarshal(fields["index"], &index) == nil {
			i := int(index)
			f.Index = &i
		}
		f.ID = strings.TrimSpace(plainText(fields["id"], 0))
		function := map[string]json.RawMessage{}
		if !blank(fields["function"]) {
			_ = decodeLoosely(fields["function"], &function)
		}
		f.Name = plainText(function["name"], 0)
		f.Arguments = argumentText(function["arguments"])
		f.Metadata = f.unknown(fields, "index", "id", "type", "function")
		f.Function = f.unknown(function, "name", "arguments")
		list = append(list, f)
	}
	return list
}

func (f *callFragment) unknown(fields map[string]json.RawMessage, known ...string) map[string]json.RawMessage {
	for _, k := range known {
		delete(fields, k)
	}
	for k, v := range fields {
		if string(v) == "null" {
			delete(fields, k)
			continue
		}
		f.metaSize += len(k) + len(v)
	}
	return fields
}

// argumentText gives arguments as text: a string is the text itself, an object
// its compact form, null nothing.
func argumentText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] == '"' {
		return plainText(raw, 0)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return ""
	}
	return compact.String()
}

// callList assembles the tool calls of one reply.
type callList struct {
	emit  func(handlers.ModelCallDelta) error
	known []string // names of the tools offered
	list  []*openCall
	order []*openCall // those announced, in that order
}

type openCall struct {
	index     *int
	id        string
	name      string
	arguments strings.Builder
	sent      int // bytes of arguments emitted
	metadata  map[string]json.RawMessage
	function  map[string]json.RawMessage
	announced int // place in the reply, from 1; 0 while not announced
}

// add takes one fragment, the one at position of a list of n in its chunk.
func (l *callList) add(f callFragment, position, n int) error {
	c := l.find(f, position, n)
	if c == nil {
		if len(l.list) >= MaxCalls {
			return errReplyTooLarge
		}
		// The names of the calls before are complete now.
		for _, earlier := range l.list {
			if err := l.announce(earlier); err != nil {
				return err
			}
		}
		c = &openCall{index: f.Index, metadata: map[string]json.RawMessage{}, function: map[string]json.RawMessage{}}
		l.list = append(l.list, c)
	}
	if c.id == "" {
		c.id = f.ID
	}
	c.addName(f.Name)
	c.addArguments(f.Arguments)
	for k, v := range f.Metadata {
		c.metadata[k] = bytes.Clone(v)
	}
	for k, v := range f.Function {
		c.function[k] = bytes.Clone(v)
	}
	if c.arguments.Len() > 0 || l.complete(strings.TrimSpace(c.name)) {
		return l.announce(c)
	}
	return nil
}

// find gives the open call that a fragment goes on, nil for a new one. Servers
// leave out or repeat the index, and some make a new id for every fragment.
func (l *callList) find(f callFragment, position, n int) *openCall {
	if f.ID != "" {
		for i := len(l.list) - 1; i >= 0; i-- {
			c := l.list[i]
			if c.id == f.ID && (f.Index == nil || c.index == nil || *c.index == *f.Index) {
				return c
			}
		}
	}
	var c *openCall
	switch {
	case f.Index != nil:
		for _, other := range l.list {
			if other.index != nil && *other.index == *f.Index {
				c = other // the latest with this index
			}
		}
	case f.ID != "" && strings.TrimSpace(f.Name) != "":
		return nil
	case n > 1 && position < len(l.list):
		c = l.list[position]
	case n == 1 && len(l.list) > 0:
		c = l.list[len(l.list)-1]
	}
	if c == nil {
		return nil
	}
	named := strings.TrimSpace(f.Name) != "" && strings.TrimSpace(c.name) != ""
	switch {
	case f.ID != "" && c.id != "" && (named || c.full()):
		return nil
	case named && strings.TrimSpace(f.Arguments) != "" && c.full() && c.arguments.String() != "{}":
		return nil
	case named && f.Index == nil && f.ID == "" && c.arguments.Len() > 0 && strings.TrimSpace(f.Name) != strings.TrimSpace(c.name):
		return nil
	}
	return c
}

// addName takes a piece of the name: the whole of it again, more of it from its
// start, or the next part.
func (c *openCall) addName(name string) {
	old, next := strings.TrimSpace(c.name), strings.TrimSpace(name)
	switch {
	case next == "" || next == old || c.announced > 0:
	case strings.HasPrefix(next, old):
		c.name = next
	default:
		c.name = old + next
	}
}

func (c *openCall) addArguments(text string) {
	switch old := c.arguments.String(); {
	case text == old && c.full():
		return // the whole call again
	case old == "{}" && strings.HasPrefix(strings.TrimSpace(text), "{"):
		// Some gateways open each call with an empty object.
		c.arguments.Reset()
		c.sent = 0
	}
	c.arguments.WriteString(text)
}

// full tells whether the arguments are a complete object.
func (c *openCall) full() bool {
	text := c.arguments.String()
	return strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && json.Valid([]byte(text))
}

// complete tells whether a name is one of the tools' and cannot go on to be
// another's.
func (l *callList) complete(name string) bool {
	found := false
	for _, k := range l.known {
		if k == name {
			found = true
		} else if strings.HasPrefix(k, name) {
			return false
		}
	}
	return found
}

// announce emits a named call, once, and the arguments not yet emitted.
func (l *callList) announce(c *openCall) error {
	name := strings.TrimSpace(c.name)
	if name == "" {
		return nil
	}
	first := c.announced == 0
	if first {
		l.order = append(l.order, c)
		c.announced = len(l.order)
	}
	d := handlers.ModelCallDelta{Index: c.announced - 1, ID: c.id, Text: c.arguments.String()[c.sent:]}
	c.sent = c.arguments.Len()
	if first {
		d.Name = name
	} else if d.Text == "" {
		return nil
	}
	return l.emit(d)
}

// end announces what was not announced yet, drops entries with neither name nor
// arguments, and gives the calls.
func (l *callList) end() ([]handlers.ModelCall, error) {
	for _, c := range l.list {
		if err := l.announce(c); err != nil {
			return nil, err
		}
		if c.announced == 0 && strings.TrimSpace(c.arguments.String()) != "" {
			l.order = append(l.order, c)
		}
	}
	var calls []handlers.ModelCall
	for _, c := range l.order {
		calls = append(calls, handlers.ModelCall{
			ID: c.id, Name: strings.TrimSpace(c.name),
			Arguments: unwrapped(c.arguments.String()), Metadata: c.meta(),
		})
	}
	return calls, nil
}

// meta is the unknown fields as one object with sorted keys, nil if none. Those
// of the function stand under "function".
func (c *openCall) meta() json.RawMessage {
	if len(c.function) > 0 {
		c.metadata["function"], _ = json.Marshal(c.function)
	}
	if len(c.metadata) == 0 {
		return nil
	}
	raw, _ := json.Marshal(c.metadata)
	return raw
}

// unwrapped takes one layer of string encoding off arguments that are an object
// inside a JSON string.
func unwrapped(arguments string) string {
	if text := strings.TrimSpace(arguments); strings.HasPrefix(text, `"`) {
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil && strings.HasPrefix(strings.TrimSpace(inner), "{") {
			return inner
		}
	}
	return arguments
}
