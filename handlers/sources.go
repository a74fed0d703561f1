package handlers

import (
	"fmt"
	"strings"

	"refold/domain/citation"
	"refold/domain/run"
	"refold/domain/tool"
)

// sourced tells whether sources can be named in a run: then ids get handles.
func sourced(s run.State) bool {
	if !s.Start.Scope.Empty() || s.Start.Web {
		return true
	}
	for _, d := range s.Start.Tools {
		if d.Sources {
			return true
		}
	}
	return false
}

const citeProtocol = `

Sources have short handles: c1, c2 ... for passages, d1 ... for documents, b1 ... for knowledge bases, w1 ... for web pages. Where a tool wants an id, give the handle. ` +
	`After each claim that a source supports, write <ref id="c1"/> with the handle of that source; cite only what you were shown in this conversation, and never write other tags for sources.`

const unciteProtocol = `

Sources have short handles: c1, c2 ... for passages, d1 ... for documents, b1 ... for knowledge bases, w1 ... for web pages. Where a tool wants an id, give the handle. ` +
	`Never show handles in the answer.`

// protocol tells the model how sources are named.
func protocol(s run.State) string {
	switch {
	case !sourced(s):
		return ""
	case s.Start.Agent.Uncited:
		return unciteProtocol
	}
	return citeProtocol
}

// nameSources gives the sources of a request handles, and the registry that
// knows them; nil for a run without sources. Everything is read before anything
// is replaced, so that a source has one handle in all messages.
func nameSources(s run.State, messages []ModelMessage) *citation.Registry {
	if !sourced(s) {
		return nil
	}
	r := &citation.Registry{}
	named := func(m ModelMessage) bool {
		if m.Role == RoleTool {
			d, ok := s.Tool(m.Name)
			return ok && d.Sources
		}
		return m.Role == RoleUser
	}
	// A tool that takes handles gives ids that were named elsewhere.
	holds := func(m ModelMessage) bool {
		d, ok := s.Tool(m.Name)
		return named(m) || m.Role == RoleTool && ok && len(d.Handles) > 0
	}
	for _, m := range messages {
		switch {
		case m.Role == RoleAssistant:
			r.ReadProse(m.Content)
		case named(m):
			r.Read(m.Content)
		}
	}
	if r.Empty() {
		return r
	}
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == RoleAssistant:
			m.Content = r.EncodeProse(m.Content)
			if len(m.Calls) > 0 {
				m.Calls = append([]ModelCall(nil), m.Calls...)
				for k := range m.Calls {
					m.Calls[k].Arguments = r.EncodeArguments(m.Calls[k].Arguments)
				}
			}
		case holds(*m):
			m.Content = r.Encode(m.Content)
		}
	}
	return r
}

// resolve gives a reply's calls with ids for handles. What has to be repaired in a
// reply that was cut off stays as it is: it will not run.
func resolve(s run.State, r *citation.Registry, reply *ModelReply) {
	if r == nil {
		return
	}
	for i := range reply.Calls {
		c := &reply.Calls[i]
		d, ok := s.Tool(tool.NormalizeName(c.Name))
		if !ok || len(d.Handles) == 0 {
			continue
		}
		args := c.Arguments
		if parsed, err := tool.ParseArguments(args); err != nil || len(parsed.Repairs) > 0 && reply.Finish == FinishLength {
			continue
		} else if len(parsed.Repairs) > 0 {
			args = string(parsed.JSON)
		}
		decoded, unknown := r.DecodeArguments(d, args)
		if c.Unknown = unknown; decoded != args {
			c.Arguments = decoded
		}
	}
}

// channels decode the handles in what a reply shows, each text by itself.
type channels struct{ answer, thought, aside *citation.Decoder }

func newChannels(s run.State, r *citation.Registry) *channels {
	if r == nil {
		return nil
	}
	cite := !s.Start.Agent.Uncited
	return &channels{citation.NewDecoder(r, cite), citation.NewDecoder(r, false), citation.NewDecoder(r, false)}
}

// bound describes the knowledge that a turn may use.
func bound(s run.State) string {
	if len(s.Start.Knowledge) == 0 && len(s.Start.Pinned) == 0 {
		return ""
	}
	var b strings.Builder
	if len(s.Start.Knowledge) > 0 {
		b.WriteString("<bound_knowledge_bases>\n")
		for _, k := range s.Start.Knowledge {
			fmt.Fprintf(&b, "<knowledge_base knowledge_base_id=\"%s\" name=\"%s\" type=\"%s\" entries=\"%d\" capabilities=\"%s\">\n",
				escape(k.Base), escape(k.Name), escape(k.Kind), k.Documents, escape(strings.Join(k.Capabilities, ", ")))
			if k.Description != "" {
				fmt.Fprintf(&b, "<description>%s</description>\n", escape(k.Description))
			}
			for _, t := range k.Recent {
				fmt.Fprintf(&b, "<recent_document>%s</recent_document>\n", escape(t))
			}
			for _, q := range k.Questions {
				fmt.Fprintf(&b, "<faq_entry>%s</faq_entry>\n", escape(q))
			}
			b.WriteString("</knowledge_base>\n")
		}
		b.WriteString("</bound_knowledge_bases>\n")
	}
	if len(s.Start.Pinned) > 0 {
		b.WriteString("<pinned_documents note=\"The user named these documents: read them first.\">\n")
		for _, d := range s.Start.Pinned {
			fmt.Fprintf(&b, "<pinned_document knowledge_id=\"%s\" knowledge_base_id=\"%s\" title=\"%s\"/>\n", escape(d.Document), escape(d.Base), escape(d.Title))
		}
		b.WriteString("</pinned_documents>\n")
	}
	return b.String()
}
