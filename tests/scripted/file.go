package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// File is a script as JSON, for trials by hand. Unknown fields are an error.
//
//	{"models": ["scripted"], "repeat": true, "steps": [
//	  {"reasoning": "I need the time.", "calls": [{"name": "now", "args": {}}]},
//	  {"text": ["It is ", "noon."], "pause_ms": 200},
//	  {"status": 429, "headers": {"Retry-After": "2"}, "body": "{\"error\":{\"message\":\"slow down\"}}"},
//	  {"raw": ["data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"], "end": "reset"}]}
type File struct {
	Models []string   `json:"models"`
	Repeat bool       `json:"repeat"` // begin again after the last step; else it is repeated
	Rules  Rules      `json:"rules"`
	Steps  []FileStep `json:"steps"`
}

// FileStep is one answer: a reply in words (reasoning, text, calls, finish,
// usage), or status and body, or raw pieces of a stream.
type FileStep struct {
	Reasoning string            `json:"reasoning"`
	Text      []string          `json:"text"`
	Calls     []FileCall        `json:"calls"`
	Finish    string            `json:"finish"`
	Usage     []int             `json:"usage"` // prompt, completion, total
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Raw       []string          `json:"raw"`
	PauseMS   int               `json:"pause_ms"` // between two pieces
	End       string            `json:"end"`      // of raw: "", "reset" or "hang"
}

// FileCall is a tool call; args are any JSON, "" or a string as they are.
type FileCall struct {
	Name string          `json:"name"`
	ID   string          `json:"id"`
	Args json.RawMessage `json:"args"`
}

// ParseFile reads a script. The error names what cannot be understood.
func ParseFile(raw []byte) (File, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var f File
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("read the script: %w", err)
	}
	if len(f.Steps) == 0 {
		return f, fmt.Errorf("read the script: it has no steps")
	}
	for i, s := range f.Steps {
		if s.End != "" && s.End != "reset" && s.End != "hang" {
			return f, fmt.Errorf("read the script: step %d: end is %q, not reset or hang", i, s.End)
		}
		if len(s.Usage) != 0 && len(s.Usage) != 3 {
			return f, fmt.Errorf("read the script: step %d: usage has %d numbers, not 3", i, len(s.Usage))
		}
	}
	return f, nil
}

// Play gives the script to a server: the steps in order, for ever.
func (f File) Play(s *Server) {
	if len(f.Models) > 0 {
		s.Models(f.Models...)
	}
	s.Play(f.Rules)
	next := make(chan int, 1)
	next <- 0
	s.Always(func(r Request) Reply {
		i := <-next
		after := min(i+1, len(f.Steps)-1)
		if f.Repeat {
			after = (i + 1) % len(f.Steps)
		}
		next <- after
		return f.Steps[i].reply(r)
	})
}

func (s FileStep) reply(r Request) Reply {
	reply := Reply{Status: s.Status, Header: s.Headers}
	switch {
	case len(s.Raw) > 0:
		for _, piece := range s.Raw {
			reply.Parts = append(reply.Parts, Raw(piece))
		}
	case s.Body != "" || s.Status >= 300:
		reply.Parts = []Part{Raw(s.Body)}
	default:
		reply.Parts = Chunks(r.Model, s.deltas(r.Number)...)
	}
	if s.PauseMS > 0 {
		var slow []Part
		for _, p := range reply.Parts {
			slow = append(slow, p, Pause(func(gone <-chan struct{}) {
				select {
				case <-time.After(time.Duration(s.PauseMS) * time.Millisecond):
				case <-gone:
				}
			}))
		}
		reply.Parts = slow
	}
	switch s.End {
	case "reset":
		reply.Parts = append(reply.Parts, Reset())
	case "hang":
		reply.Parts = append(reply.Parts, Hang())
	}
	return reply
}

func (s FileStep) deltas(number int) []Delta {
	var list []Delta
	if s.Reasoning != "" {
		list = append(list, Reasoning(s.Reasoning))
	}
	for _, t := range s.Text {
		list = append(list, Text(t))
	}
	for i, c := range s.Calls {
		call := Call{Name: c.Name, ID: c.ID, Args: string(c.Args)}
		if call.ID == "" {
			call.ID = fmt.Sprintf("call_%d_%d", number, i)
		}
		var text string
		if json.Unmarshal(c.Args, &text) == nil {
			call.Args = text
		}
		list = append(list, Calls(call))
	}
	if s.Finish != "" {
		list = append(list, Finish(s.Finish))
	}
	if len(s.Usage) == 3 {
		list = append(list, Usage(s.Usage[0], s.Usage[1], s.Usage[2]))
	}
	return list
}
