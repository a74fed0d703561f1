package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/tests/scripted"
)

// lookTool answers at once; risky needs a person.
type lookTool struct {
	name  string
	asked bool
}

func (l lookTool) Definition() tool.Definition {
	return tool.Definition{Name: l.name, Description: "Look.", Effect: tool.ReadOnly, Approval: l.asked, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (l lookTool) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	if strings.Contains(string(c.Arguments), "bad") {
		return tool.Failed("There is nothing."), nil
	}
	return tool.Result{Output: "seen"}, nil
}

// scrape reads the numbers as Prometheus does.
func scrape(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatal(w.Code, w.Body.String())
	}
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			v, err := strconv.ParseFloat(line[i+1:], 64)
			if err != nil {
				t.Fatal(line)
			}
			out[line[:i]] = v
		}
	}
	return out
}

// TestMetrics_Ingestion: what became of documents, and of the stages on the way.
func TestMetrics_Ingestion(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := a.API.Handler()
	by := commands.Caller{Tenant: "1", Principal: "u"}
	base, _, err := a.Commands.CreateBase(ctx, by, commands.NewBase{Name: "B"})
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for name, text := range map[string]string{"a.md": "# A\n\nWords.", "bad.pdf": "no PDF"} {
		digest, err := a.DB.Blobs().Put(ctx, "1", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		added, err := a.Commands.AddDocument(ctx, by, commands.AddDocument{Base: base, Origin: knowledge.OriginFile, FileName: name, Content: knowledge.Blob{Digest: digest, Size: int64(len(text))}})
		if err != nil {
			t.Fatal(err)
		}
		if name == "a.md" {
			first = added.Document
		}
	}
	until := func(name string, want float64) map[string]float64 {
		t.Helper()
		for {
			got := scrape(t, h)
			if got[name] == want {
				return got
			}
			if ctx.Err() != nil {
				t.Fatalf("%s is %v, want %v", name, got[name], want)
			}
		}
	}
	until(`refold_ingest_documents_total{outcome="indexed"}`, 1)
	until(`refold_ingest_documents_total{outcome="failed"}`, 1)
	if _, err := a.Commands.DeleteDocument(ctx, by, first); err != nil {
		t.Fatal(err)
	}
	until(`refold_ingest_documents_total{outcome="removed"}`, 1)
	got := until("refold_ingest_active", 0)
	for name, want := range map[string]float64{`refold_ingest_stages_total{outcome="done",stage="parse"}`: 1, `refold_ingest_stages_total{outcome="done",stage="index"}`: 1, `refold_ingest_stage_seconds_count{stage="index"}`: 1,
		`refold_ingest_stages_total{outcome="damaged",stage="parse"}`: 1, "refold_ingest_queue": 0} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got[`refold_appends_total{category="document",outcome="ok"}`] == 0 {
		t.Error("appends of documents are not counted by name")
	}
}

// TestMetrics: after a script of runs the numbers are exactly right.
func TestMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	gate := make(chan struct{})
	call := func(id, name, args string) scripted.Delta {
		return scripted.Calls(scripted.Call{ID: id, Name: name, Args: args})
	}
	model := scripted.New(t,
		scripted.Say(call("c1", "look", `{"at":"x"}`), scripted.Usage(7, 1, 8)), scripted.Say(call("c2", "look", `{"at":"bad"}`), scripted.Usage(9, 2, 11)),
		scripted.Say(scripted.Text("One"), scripted.Gate(gate), scripted.Text("."), scripted.Usage(200, 20, 220)),
		scripted.Fail(401, "no"),
		scripted.Say(call("c3", "mail", `{}`), scripted.Usage(5, 5, 10)), scripted.Say(scripted.Text("Well."), scripted.Usage(6, 6, 12)))
	a, err := Open(ctx, Config{Data: t.TempDir(), Temperature: -1, Models: []ModelConfig{{Name: "m", BaseURL: model.URL, Model: "m"}},
		Tools: []tool.Tool{lookTool{"look", false}, lookTool{"mail", true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := a.API.Handler()
	s := httptest.NewServer(h)
	defer s.Close()
	ask := func(method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode >= 300 {
			t.Fatal(method, path, res, err)
		}
		return res
	}
	var made struct{ Data struct{ ID string } }
	res := ask("POST", "/api/v1/sessions", `{"title":"t"}`)
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	chat := func() (*bufio.Scanner, io.Closer) {
		res := ask("POST", "/api/v1/agent-chat/"+made.Data.ID, `{"query":"q"}`)
		return bufio.NewScanner(res.Body), res.Body
	}
	until := func(lines *bufio.Scanner, part string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ends before %s: %v", part, lines.Err())
		return ""
	}
	has := func(got map[string]float64, want map[string]float64) {
		t.Helper()
		for name, v := range want {
			if x, ok := got[name]; !ok && v != 0 || x != v {
				t.Errorf("%s is %v, want %v", name, x, v)
			}
		}
	}

	lines, body := chat()
	until(lines, `"content":"One"`)
	has(scrape(t, h), map[string]float64{"refold_sse_readers": 1, "refold_actors_active": 1, "refold_runs_parked": 0, "refold_projections_broken": 0})
	for scrape(t, h)[`refold_runs_open{status="running"}`] != 1 { // the view follows
		if ctx.Err() != nil {
			t.Fatal("no run is open")
		}
	}
	close(gate)
	until(lines, `"response_type":"complete"`)
	body.Close()
	lines, body = chat()
	until(lines, `"code":"unauthorized"`)
	body.Close()
	lines, body = chat()
	var frame struct {
		Data struct {
			ID string `json:"pending_id"`
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(until(lines, `"response_type":"tool_approval_required"`), "data:")), &frame); err != nil {
		t.Fatal(err)
	}
	for {
		got := scrape(t, h)
		if got[`refold_runs_open{status="waiting"}`] == 1 && got["refold_runs_parked"] == 1 && got["refold_actors_active"] == 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("no run waits")
		}
	}
	ask("POST", "/api/v1/agent/tool-approvals/"+frame.Data.ID, `{"decision":"approve"}`).Body.Close()
	until(lines, `"response_type":"complete"`)
	body.Close()
	s.Close() // every request is over, and counted

	if _, err := a.Store.Append(ctx, event.Stream{Tenant: "1", Category: "session", ID: made.Data.ID}, event.NoStream(),
		event.New{ID: "late", Type: "SessionCreated", Schema: 1, Time: time.Now(), Data: []byte(`{}`)}); err == nil {
		t.Fatal("no conflict")
	}
	// The end of a run waits for no view; a read of them does.
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/api/v1/runs", nil)); w.Code != 200 {
		t.Fatal(w.Code, w.Body.String())
	}
	got := scrape(t, h)
	want := map[string]float64{
		`refold_model_calls_total{model="m",outcome="ok"}`: 5, `refold_model_calls_total{model="m",outcome="unauthorized"}`: 1,
		`refold_model_call_seconds_count{model="m"}`: 5, `refold_model_first_delta_seconds_count{model="m"}`: 5,
		`refold_model_tokens_total{kind="prompt",model="m"}`: 227, `refold_model_tokens_total{kind="completion",model="m"}`: 34,
		`refold_tool_calls_total{outcome="success",tool="look"}`: 1, `refold_tool_calls_total{outcome="failed",tool="look"}`: 1,
		`refold_tool_calls_total{outcome="success",tool="mail"}`: 1, `refold_tool_call_seconds_count{tool="look"}`: 2,
		`refold_runs_open{status="running"}`: 0, `refold_runs_open{status="waiting"}`: 0, `refold_runs_open{status="posted"}`: 0,
		"refold_sse_readers": 0, "refold_projections_broken": 0, "refold_scrape_errors_total": 0,
		`refold_http_requests_total{method="POST",route="/api/v1/agent-chat/{session}",status="200"}`:            3,
		`refold_http_requests_total{method="POST",route="/api/v1/sessions",status="201"}`:                        1,
		`refold_http_requests_total{method="POST",route="/api/v1/agent/tool-approvals/{approval}",status="200"}`: 1,
		`refold_http_request_seconds_count{method="POST",route="/api/v1/agent-chat/{session}"}`:                  0,
		`refold_appends_total{category="session",outcome="conflict"}`:                                            1,
		`refold_append_conflicts_total{category="session"}`:                                                      1,
		`refold_projection_lag_seconds{projection="runs"}`:                                                       0,
	}
	all, _, err := a.Store.Scan(ctx, "", event.Filter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, category := range []string{"session", "run"} {
		n := 0
		for _, raw := range all {
			if raw.Stream.Category == category {
				n++
			}
		}
		want[fmt.Sprintf("refold_append_events_sum{category=%q}", category)] = float64(n)
		if ok := got[fmt.Sprintf("refold_appends_total{category=%q,outcome=\"ok\"}", category)]; ok != got[fmt.Sprintf("refold_append_seconds_count{category=%q}", category)] || ok == 0 {
			t.Errorf("%s: %v appends, %v times", category, ok, got[fmt.Sprintf("refold_append_seconds_count{category=%q}", category)])
		}
	}
	has(got, want)
	for _, raw := range all { // and every fact of session and runs has the trace
		if raw.Meta.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("%s of %s has the trace %q", raw.Type, raw.Stream, raw.Meta.Trace)
		}
	}
	if t.Failed() {
		for name, v := range got {
			if strings.HasPrefix(name, "refold_") && !strings.Contains(name, "_bucket") {
				t.Log(name, v)
			}
		}
	}
}
