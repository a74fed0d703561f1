package scripted

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// Step answers one request. Reply values and the builders make steps that do not
// look at the request.
type Step func(Request) Reply

// Reply is a response: status, headers, then the parts in order. Each part is
// flushed before the next begins.
type Reply struct {
	Status int               // 0 is 200
	Header map[string]string // beside Content-Type, which is text/event-stream unless given
	Parts  []Part
}

// Part is a stretch of a response body, or what happens between two stretches.
type Part struct {
	data  []byte
	wait  <-chan struct{}
	hang  bool
	reset bool
	pause func(done <-chan struct{})
}

// Raw is bytes as they are, in one flush.
func Raw(data string) Part { return Part{data: []byte(data)} }

// Data is one data event with the JSON, or the text, given.
func Data(data string) Part { return Raw("data: " + data + "\n\n") }

// Done is the end marker of a stream.
func Done() Part { return Data("[DONE]") }

// Wait holds the response until gate is closed or gives a value, or the client
// leaves.
func Wait(gate <-chan struct{}) Part { return Part{wait: gate} }

// Hang holds the response until the client leaves or the server closes.
func Hang() Part { return Part{hang: true} }

// Reset breaks the connection off with a TCP reset.
func Reset() Part { return Part{reset: true} }

// Pause runs f between two parts; done is closed when the client leaves. It is
// for trials by hand, where a gate has nobody to open it.
func Pause(f func(done <-chan struct{})) Part { return Part{pause: f} }

// Bytes is data flushed after each byte.
func Bytes(data string) []Part {
	parts := make([]Part, len(data))
	for i := range len(data) {
		parts[i] = Raw(data[i : i+1])
	}
	return parts
}

// Stream is a step with status 200 and the event stream of the parts, as they
// are: an end marker must be among them.
func Stream(parts ...Part) Step {
	return func(Request) Reply { return Reply{Parts: parts} }
}

// Respond is a step with a whole response.
func Respond(status int, header map[string]string, body string) Step {
	return func(Request) Reply { return Reply{Status: status, Header: header, Parts: []Part{Raw(body)}} }
}

// Fail is a step with an error status and OpenAI's error object.
func Fail(status int, message string) Step {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "scripted", "code": nil}})
	return Respond(status, map[string]string{"Content-Type": "application/json"}, string(body))
}

// Say is a step that streams a whole, well-formed reply: the deltas, then the
// finish reason (tool_calls if there are calls, else stop) unless one of them is
// Finish, and the end marker.
func Say(deltas ...Delta) Step {
	return func(r Request) Reply { return Reply{Parts: Chunks(r.Model, deltas...)} }
}

func (p Reply) serve(w http.ResponseWriter, r *http.Request, quit <-chan struct{}) {
	w.Header().Set("Content-Type", "text/event-stream")
	for k, v := range p.Header {
		w.Header().Set(k, v)
	}
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	flush := http.NewResponseController(w)
	gone := r.Context().Done()
	for _, part := range p.Parts {
		switch {
		case part.reset:
			reset(w)
			return
		case part.pause != nil:
			part.pause(gone)
		case part.wait != nil, part.hang:
			flush.Flush()
			select {
			case <-part.wait:
			case <-gone:
				return
			case <-quit:
				return
			}
		default:
			if _, err := w.Write(part.data); err != nil {
				return
			}
			if flush.Flush() != nil {
				return
			}
		}
	}
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// Join puts parts and lists of parts together.
func Join(lists ...[]Part) []Part {
	var all []Part
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// String is the body that parts without gates make, for comparing.
func String(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.Write(p.data)
	}
	return b.String()
}
