package scripted

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

const plainRequest = `{"model":"m","messages":[{"role":"user","content":"q"}],"stream":true}`

func post(t *testing.T, s *Server, body string) (int, string, error) {
	t.Helper()
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func TestSay(t *testing.T) {
	s := New(t, Say(Text("hi"), Calls(Call{"now", `{"a":1}`, "c"}), Usage(1, 2, 3)))
	status, body, err := post(t, s, plainRequest)
	if status != 200 || err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%d %v %s", status, err, body)
	}
	for _, part := range []string{`"content":"hi"`, `"name":"now"`, `{\"a`, `"finish_reason":"tool_calls"`, `"total_tokens":3`, `"model":"m"`} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is missing in %s", part, body)
		}
	}
	if r := s.Requests(); len(r) != 1 || string(r[0].Body) != plainRequest || r[0].Last("user") != "q" {
		t.Errorf("recorded %+v", r)
	}
}

func TestGateAndReset(t *testing.T) {
	gate := make(chan struct{})
	s := New(t, Stream(Raw("one\n"), Wait(gate), Raw("two\n")), Stream(Raw("half"), Reset()))
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(plainRequest))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	if line, _ := r.ReadString('\n'); line != "one\n" {
		t.Errorf("got %q", line)
	}
	close(gate)
	if line, _ := r.ReadString('\n'); line != "two\n" {
		t.Errorf("got %q", line)
	}
	<-s.Requests()[0].Gone
	if _, _, err := post(t, s, plainRequest); err == nil {
		t.Error("the reset was not seen")
	}
}

func TestCheck(t *testing.T) {
	call := func(id, arguments string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"` + arguments + `"}}`
	}
	user := `{"role":"user","content":"q"}`
	assistant := func(content, rest string) string { return `{"role":"assistant"` + content + rest + `}` }
	for _, c := range []struct {
		name, messages, fault string
		rules                 Rules
	}{
		{"good", user + "," + assistant(`,"content":null`, `,"tool_calls":[`+call("a", "{}")+`,`+call("b", "{}")+`]`) + `,{"role":"tool","tool_call_id":"b","content":""},{"role":"tool","tool_call_id":"a","content":""}`, "", Rules{}},
		{"orphan result", user + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "answers no call", Rules{}},
		{"missing result", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", "{}")+`]`) + "," + user, "has no result before", Rules{}},
		{"missing result at the end", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", "{}")+`]`), "has no result", Rules{}},
		{"empty id", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("", "{}")+`]`) + `,{"role":"tool","tool_call_id":"","content":"x"}`, "has no id", Rules{}},
		{"id twice", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", "{}")+`,`+call("a", "{}")+`]`) + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "used twice", Rules{}},
		{"broken arguments", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", `{\"x`)+`]`) + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "no JSON object", Rules{}},
		{"no content", `{"role":"user"}`, "content is missing", Rules{}},
		{"null without calls", assistant(`,"content":null`, ""), "null without", Rules{}},
		{"refuses null", user + "," + assistant(`,"content":null`, `,"tool_calls":[`+call("a", "{}")+`]`) + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "must not be null", Rules{RefuseNull: true}},
		{"refuses empty", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", "{}")+`]`) + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "must not be empty", Rules{RefuseEmpty: true}},
		{"wants reasoning", user + "," + assistant(`,"content":""`, `,"tool_calls":[`+call("a", "{}")+`]`) + `,{"role":"tool","tool_call_id":"a","content":"x"}`, "must be passed back", Rules{RequireReasoning: true}},
		{"refuses reasoning", assistant(`,"content":"x","reasoning_content":"y"`, ""), "not accepted", Rules{RefuseReasoning: true}},
		{"empty assistant", assistant(`,"content":""`, ""), "neither text nor calls", Rules{}},
		{"role", `{"role":"robot","content":"x"}`, "unknown role", Rules{}},
		{"none", "", "no messages", Rules{}},
		{"nothing checked", "", "", Rules{Anything: true}},
	} {
		faults := strings.Join(c.rules.Check([]byte(`{"messages":[`+c.messages+`]}`)), "; ")
		if (c.fault == "") != (faults == "") || !strings.Contains(faults, c.fault) {
			t.Errorf("%s: got %q, want %q", c.name, faults, c.fault)
		}
	}
}

func TestTolerantBreachIsAnswered(t *testing.T) {
	s := New(t)
	s.Play(Rules{Tolerant: true})
	status, body, _ := post(t, s, `{"messages":[{"role":"user"}]}`)
	if status != 400 || !strings.Contains(body, "content is missing") || len(s.Faults()) != 1 {
		t.Errorf("%d %s %v", status, body, s.Faults())
	}
}

func TestFile(t *testing.T) {
	f, err := ParseFile([]byte(`{"models":["x"],"repeat":true,"steps":[
		{"reasoning":"r","text":["a","b"],"usage":[1,2,3]},
		{"calls":[{"name":"now","args":{"a":1}},{"name":"now","args":"{broken"}],"pause_ms":1},
		{"status":429,"headers":{"Retry-After":"2"},"body":"{}"},
		{"raw":["data: x\n\n"],"end":"reset"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(t)
	f.Play(s)
	for i, want := range []string{`"content":"b"`, `{broken`[:3], `{}`, "", `"reasoning_content":"r"`} {
		status, body, err := post(t, s, plainRequest)
		if !strings.Contains(body, want) || (status == 429) != (i == 2) || (err != nil) != (i == 3) {
			t.Errorf("step %d: %d %v %s", i, status, err, body)
		}
	}
	for _, bad := range []string{`{`, `{"steps":[]}`, `{"steps":[{"txt":"a"}]}`, `{"steps":[{"end":"x"}]}`, `{"steps":[{"usage":[1]}]}`} {
		if _, err := ParseFile([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
