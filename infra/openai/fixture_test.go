package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"refold/domain/tool"
	"refold/handlers"
)

// fixture is a response body and what it means.
type fixture struct {
	name string
	body string
	want handlers.ModelReply
	code string // of the error, "" if none
}

func text(content string) handlers.ModelReply {
	return handlers.ModelReply{Content: content, Finish: "stop"}
}

func calls(finish string, list ...handlers.ModelCall) handlers.ModelReply {
	return handlers.ModelReply{Calls: list, Finish: finish}
}

func delta(d string) string { return finishing(d, "") }

func finishing(d, finish string) string {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}
	return `data: {"choices":[{"index":0,"delta":` + d + `,"finish_reason":` + reason + `}]}` + "\n\n"
}

const done = "data: [DONE]\n\n"

func stopDone() string { return finishing("{}", "stop") + done }

var now = handlers.ModelCall{ID: "c1", Name: "now", Arguments: "{}"}

func nowDelta(call string) string { return `{"tool_calls":[` + call + `]}` }

const nowCall = `{"index":0,"id":"c1","type":"function","function":{"name":"now","arguments":"{}"}}`

// fixtures are the shapes of the cases from the field, by their number.
var fixtures = []fixture{
	{"P01 no space", strings.ReplaceAll(delta(`{"content":"好"}`)+stopDone(), "data: ", "data:"), text("好"), ""},
	{"P01 space", delta(`{"content":"好"}`) + stopDone(), text("好"), ""},
	{"P02 comments", ": OPENROUTER PROCESSING\n:\n:ping 12\nevent: message\nid: 7\nretry: 3000\n" + delta(`{"content":"ok"}`) + ": keepalive\n\n" + stopDone(), text("ok"), ""},
	{"P02 CRLF", strings.ReplaceAll(": a\n\n"+delta(`{"content":"ok"}`)+stopDone(), "\n", "\r\n"), text("ok"), ""},
	{"P02 CR", strings.ReplaceAll(": a\n\n"+delta(`{"content":"ok"}`)+stopDone(), "\n", "\r"), text("ok"), ""},
	{"P02 no blank lines", strings.ReplaceAll(delta(`{"content":"o"}`)+delta(`{"content":"k"}`)+stopDone(), "\n\n", "\n"), text("ok"), ""},
	{"P02 byte order mark", "\xef\xbb\xbf" + delta(`{"content":"ok"}`) + stopDone(), text("ok"), ""},
	{"P02 event over several data lines", "data: {\"choices\":[\ndata: {\"delta\":{\"content\":\"ok\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n" + done, text("ok"), ""},
	{"P02 empty and foreign data", "data:\n\ndata: ping\n\ndata: null\n\n" + delta(`{"content":"ok"}`) + stopDone(), text("ok"), ""},
	{"P03 usage without choices", `data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n" + finishing(`{"content":"hi"}`, "stop") +
		`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":1,"total_tokens":12}}` + "\n\n" + done,
		handlers.ModelReply{Content: "hi", Finish: "stop", Usage: handlers.ModelUsage{Prompt: 11, Completion: 1, Total: 12}}, ""},
	{"P03 usage in every chunk", `data: {"model":"m-1","choices":[{"delta":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_cache_hit_tokens":2}}` + "\n\n" +
		`data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":2}}],"usage":null}` + "\n\n",
		handlers.ModelReply{Content: "hi", Finish: "stop", Model: "m-1", Usage: handlers.ModelUsage{Prompt: 3, Completion: 2, Total: 5}}, ""},
	{"two choices", `data: {"choices":[{"index":0,"delta":{"content":"A"}},{"index":1,"delta":{"content":"B"}}]}` + "\n\n" +
		`data: {"choices":[{"index":1,"delta":{"content":"B","tool_calls":[` + nowCall + `]},"finish_reason":"length"}]}` + "\n\n" + stopDone(), text("A"), ""},
	{"blocks of one choice, numbered", `data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}` + "\n\n" + `data: {"choices":[{"index":1,"delta":{"content":"A"}}]}` + "\n\n" +
		`data: {"choices":[{"index":2,"delta":{"content":"B"},"finish_reason":"stop"}]}` + "\n\n" + done, handlers.ModelReply{Content: "AB", Reasoning: "Hm.", Finish: "stop"}, ""},
	{"two whole choices", `{"choices":[{"index":1,"message":{"content":"B"},"finish_reason":"length"},{"index":0,"message":{"content":"A"},"finish_reason":"stop"}]}`, text("A"), ""},
	{"P04 number", `data: {"choices":[],"error":{"code":429,"message":"monthly budget used up","type":"rate_limit"}}` + "\n\n" + done, handlers.ModelReply{}, "rate_limited"},
	{"P04 text", delta(`{"content":"a"}`) + `data: {"choices":[],"error":{"code":"429","message":"monthly budget used up"}}` + "\n\n" + stopDone(), handlers.ModelReply{Content: "a"}, "rate_limited"},
	{"P04 null", `data: {"choices":[],"error":{"code":null,"message":"monthly budget used up","type":"rate_limit"}}` + "\n\n" + done, handlers.ModelReply{}, "rate_limited"},
	{"P04 null and no type", `data: {"error":{"code":null,"message":"monthly budget used up"}}` + "\n\n", handlers.ModelReply{}, "server_error"},
	{"P04 string", `data: {"error":"monthly budget used up"}` + "\n\n", handlers.ModelReply{}, "server_error"},
	{"P04 error event", "event: error\ndata: {\"code\":503,\"message\":\"monthly budget used up\"}\n\n" + done, handlers.ModelReply{}, "overloaded"},
	{"P04 text in an error event", "event: error\ndata: monthly budget used up\n\n" + done, handlers.ModelReply{}, "server_error"},
	{"P04 bare object", delta(`{"content":"a"}`) + "{\"error\":{\"code\":500,\"message\":\"monthly budget used up\"}}\n\n", handlers.ModelReply{Content: "a"}, "server_error"},
	{"P04 list", `[{"error":{"code":400,"message":"monthly budget used up"}}]`, handlers.ModelReply{}, "bad_request"},
	{"P04 after the finish", finishing(`{"content":"a"}`, "stop") + `data: {"error":{"code":500,"message":"monthly budget used up"}}` + "\n\n" + done, handlers.ModelReply{Content: "a", Finish: "stop"}, "server_error"},
	{"P04 null error is none", `data: {"error":null,"choices":[{"delta":{"content":"the \"error\" word"},"finish_reason":"stop"}]}` + "\n\n" + done, text(`the "error" word`), ""},
	{"P04 finish reason error", `data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n" + done, handlers.ModelReply{}, "server_error"},
	{"P06 characters", delta(`{"content":"晴天"}`) + delta(`{"content":"😀 é"}`) + stopDone(), text("晴天😀 é"), ""},
	{"P06 halves of a pair", delta(`{"content":"a\ud83d"}`) + delta(`{"content":"\ude00\\ud83d"}`) + stopDone(), text(`a😀\ud83d`), ""},
	{"P07 cut", delta(`{"content":"The first step is"}`), handlers.ModelReply{Content: "The first step is"}, "incomplete"},
	{"P07 cut in a line", delta(`{"content":"a"}`) + `data: {"choices":[{"delta":{"content":"b`, handlers.ModelReply{Content: "a"}, "incomplete"},
	{"P07 cut with a held tag", delta(`{"content":"a <thi"}`), handlers.ModelReply{Content: "a <thi"}, "incomplete"},
	{"P07 finish without end marker", delta(`{"content":"a"}`) + finishing("{}", "stop"), text("a"), ""},
	{"P07 finish without line end", delta(`{"content":"a"}`) + strings.TrimSpace(finishing("{}", "stop")), text("a"), ""},
	{"P07 end marker without finish", delta(`{"content":"a"}`) + "data: [DONE]", text("a"), ""},
	{"P07 nothing", "", handlers.ModelReply{}, "incomplete"},
	{"P09 one delta", delta(`{"tool_calls":[{"id":"call_a","type":"function","function":{"name":"add","arguments":"{\"x\":1}"}},{"id":"call_b","type":"function","function":{"name":"now","arguments":"{}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "call_a", Name: "add", Arguments: `{"x":1}`}, handlers.ModelCall{ID: "call_b", Name: "now", Arguments: "{}"}), ""},
	{"P09 one per chunk", delta(`{"tool_calls":[{"id":"call_a","function":{"name":"add","arguments":"{\"x\""}}]}`) + delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`) +
		delta(`{"tool_calls":[{"id":"call_b","function":{"name":"now","arguments":"{}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "call_a", Name: "add", Arguments: `{"x":1}`}, handlers.ModelCall{ID: "call_b", Name: "now", Arguments: "{}"}), ""},
	{"P09 neither index nor id", delta(`{"tool_calls":[{"function":{"name":"add","arguments":"{\"x\":1}"}}]}`) + delta(`{"tool_calls":[{"function":{"name":"add","arguments":"{\"x\":2}"}}]}`) +
		delta(`{"tool_calls":[{"function":{"name":"now","arguments":""}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{Name: "add", Arguments: `{"x":1}`}, handlers.ModelCall{Name: "add", Arguments: `{"x":2}`}, handlers.ModelCall{Name: "now"}), ""},
	{"P09 pieces by position", delta(`{"tool_calls":[{"function":{"name":"add","arguments":"{\"x\""}},{"function":{"name":"now","arguments":"{"}}]}`) + delta(`{"tool_calls":[{"function":{"arguments":":1}"}},{"function":{"arguments":"}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{Name: "add", Arguments: `{"x":1}`}, handlers.ModelCall{Name: "now", Arguments: "{}"}), ""},
	{"P10 index 0 for all", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"{\"q\":\"a\"}"}}]}`) + delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"search","arguments":"{\"q\":\"b\"}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"a"}`}, handlers.ModelCall{ID: "c2", Name: "search", Arguments: `{"q":"b"}`}), ""},
	{"P10 index 0 for all, in pieces", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":""}}]}`) + delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":\"a\"}"}}]}`) +
		delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"search","arguments":""}}]}`) + delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":\"b\"}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"a"}`}, handlers.ModelCall{ID: "c2", Name: "search", Arguments: `{"q":"b"}`}), ""},
	{"P10 same id repeated", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"{\"q\""}}]}`) + delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":":\"a\"}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"a"}`}), ""},
	{"P10 a new id for every piece", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"{\"q\""}}]}`) + delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"arguments":":\"a\"}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"a"}`}), ""},
	{"P10 name in pieces", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"se"}}]}`) + delta(`{"tool_calls":[{"index":0,"function":{"name":"arch"}}]}`) + delta(`{"tool_calls":[{"index":0,"function":{"name":"search","arguments":"{}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{}`}), ""},
	{"P10 opened with an empty object", delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"{}"}}]}`) + delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":1}"}}]}`) + finishing("{}", "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":1}`}), ""},
	{"P11 object", finishing(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":{"q": "天气", "n":3}}}]}`, "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"天气","n":3}`}), ""},
	{"P11 string", finishing(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"{\"q\":\"天气\",\"n\":3}"}}]}`, "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":"天气","n":3}`}), ""},
	{"P11 null", finishing(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":null}}]}`, "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search"}), ""},
	{"P11 encoded twice", finishing(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search","arguments":"\"{\\\"q\\\":1}\""}}]}`, "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "search", Arguments: `{"q":1}`}), ""},
	{"P12 stop", delta(nowDelta(nowCall)) + finishing("{}", "stop") + done, calls("stop", now), ""},
	{"P12 end_turn", delta(nowDelta(nowCall)) + finishing("{}", " End_Turn ") + done, calls("stop", now), ""},
	{"P12 length", delta(nowDelta(nowCall)) + finishing("{}", "length") + done, calls("length", now), ""},
	{"P12 max_tokens", delta(nowDelta(nowCall)) + finishing("{}", "max_tokens") + done, calls("length", now), ""},
	{"P12 content_filter", delta(nowDelta(nowCall)) + finishing("{}", "content_filter") + done, calls("content_filter", now), ""},
	{"P12 none", delta(nowDelta(nowCall)) + done, calls("tool_calls", now), ""},
	{"P13 two finish chunks", delta(`{"content":"Let me look."}`) + finishing(nowDelta(nowCall), "tool_calls") + stopDone(),
		handlers.ModelReply{Content: "Let me look.", Finish: "tool_calls", Calls: []handlers.ModelCall{now}}, ""},
	{"P13 a cut is not masked", finishing(`{"content":"a"}`, "length") + stopDone(), handlers.ModelReply{Content: "a", Finish: "length"}, ""},
	{"P14 empty id", finishing(nowDelta(`{"index":0,"id":" ","function":{"name":"now","arguments":"{}"}}`), "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{Name: "now", Arguments: "{}"}), ""},
	{"P16 name with white space", finishing(nowDelta(`{"index":0,"id":"c1","function":{"name":"\n now \n","arguments":"{}"}}`), "tool_calls") + done, calls("tool_calls", now), ""},
	{"P17 cut call", delta(nowDelta(`{"index":0,"id":"c1","function":{"name":"write_file","arguments":"{\"path\":\"a.md\",\"content\":\"line 1\\nline"}}`)) + finishing("{}", "length") + done,
		calls("length", handlers.ModelCall{ID: "c1", Name: "write_file", Arguments: `{"path":"a.md","content":"line 1\nline`}), ""},
	{"P18 cut call, said to be whole", finishing(nowDelta(`{"id":"c1","function":{"name":"record","arguments":"{\"label\":\"a\",\"text\":\"long"}}`), "tool_calls") + `data: {"choices":[],"usage":{"completion_tokens":32}}` + "\n\n" + done,
		handlers.ModelReply{Finish: "tool_calls", Usage: handlers.ModelUsage{Completion: 32, Total: 32}, Calls: []handlers.ModelCall{{ID: "c1", Name: "record", Arguments: `{"label":"a","text":"long`}}}, ""},
	{"P19 ghost", finishing(`{"role":"assistant","content":"","tool_calls":[{"id":"","type":"","function":{}},`+nowCall+`]}`, "tool_calls") + done, calls("tool_calls", now), ""},
	{"P19 ghosts only", finishing(`{"tool_calls":[{"id":"","function":{}},{"index":3,"function":{"name":" ","arguments":""}}]}`, "stop") + done, handlers.ModelReply{Finish: "stop"}, ""},
	{"P19 null instead of lists", finishing(`{"content":"a","tool_calls":null,"function_call":null}`, "stop") + done, text("a"), ""},
	{"P20 all in one", delta(`{"reasoning_content":"need time"}`) + delta(`{"content":"Checking. "}`) + finishing(nowDelta(nowCall), "tool_calls") + done,
		handlers.ModelReply{Reasoning: "need time", Content: "Checking. ", Finish: "tool_calls", Calls: []handlers.ModelCall{now}}, ""},
	{"P20 blank start", delta(`{"content":"\n"}`) + delta(`{"content":" \u00a0\n"}`) + delta(`{"content":"  Hi \n"}`) + delta(`{"content":" "}`) + stopDone(), text("Hi \n "), ""},
	{"P21 empty arguments", finishing(nowDelta(`{"index":0,"id":"c1","function":{"name":"now","arguments":""}}`), "tool_calls") + done, calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "now"}), ""},
	{"P21 no arguments", finishing(nowDelta(`{"index":0,"id":"c1","function":{"name":"now"}}`), "tool_calls") + done, calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "now"}), ""},
	{"P27 think tags over chunks", delta(`{"content":"<t"}`) + delta(`{"content":"hink>plan B</"}`) + delta(`{"content":"think>It is "}`) + delta(`{"content":"seven."}`) + stopDone(),
		handlers.ModelReply{Reasoning: "plan B", Content: "It is seven.", Finish: "stop"}, ""},
	{"P28 orphan closer", delta(`{"content":"\u00a0</think>\n\nThe total is 3."}`) + stopDone(), text("The total is 3."), ""},
	{"P29 held suffix", delta(`{"content":"if a < b then <thi"}`) + delta(`{"content":"n> end"}`) + delta(`{"content":" x <th"}`) + stopDone(), text("if a < b then <thin> end x <th"), ""},
	{"reasoning twice", delta(`{"reasoning":"a","reasoning_content":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]}`) + delta(`{"reasoning":"b"}`) +
		delta(`{"reasoning_details":[{"type":"reasoning.text","text":"c"},{"type":"reasoning.encrypted","data":"x"}]}`) + finishing(`{"content":"z"}`, "stop") + done,
		handlers.ModelReply{Reasoning: "abc", Content: "z", Finish: "stop"}, ""},
	{"content in parts", delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}`) + stopDone(),
		handlers.ModelReply{Reasoning: "hm", Content: "yes", Finish: "stop"}, ""},
	{"refusal", delta(`{"refusal":"I cannot."}`) + stopDone(), text("I cannot."), ""},
	{"metadata", finishing(nowDelta(`{"index":0,"id":"c1","type":"function","extra_content":{"google":{"thought_signature":"s<1"}},"function":{"name":"now","arguments":"{}","sig":7}}`), "tool_calls") + done,
		calls("tool_calls", handlers.ModelCall{ID: "c1", Name: "now", Arguments: "{}", Metadata: json.RawMessage(`{"extra_content":{"google":{"thought_signature":"s\u003c1"}},"function":{"sig":7}}`)}), ""},
	{"wrong types", `data: {"id":7,"model":["x"],"choices":[{"index":"0","delta":{"role":3,"content":"a"},"finish_reason":null},null]}` + "\n\n" + stopDone(), text("a"), ""},
	{"JSON document", `{"model":"m","choices":[{"message":{"role":"assistant","content":"<think>t</think>\nhi","tool_calls":[{"id":"c1","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
		handlers.ModelReply{Reasoning: "t", Content: "hi", Model: "m", Finish: "tool_calls", Calls: []handlers.ModelCall{now}, Usage: handlers.ModelUsage{Prompt: 1, Completion: 2, Total: 3}}, ""},
	{"JSON document without finish", " \n" + `{"choices":[{"message":{"content":"hi"}}]}` + "\n", text("hi"), ""},
	{"JSON document, cut", `{"choices":[{"message":{"content":"hi"}}`, handlers.ModelReply{}, "incomplete"},
	{"JSON lines", `{"choices":[{"delta":{"content":"h"}}]}` + "\n" + `{"choices":[{"delta":{"content":"i"},"finish_reason":"stop"}]}` + "\n", text("hi"), ""},
	{"JSON of something else", `{"hello":"world"}`, handlers.ModelReply{}, "bad_response"},
	{"whole message after deltas", delta(`{"content":"hi"}`) + `data: {"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n" + done, text("hi"), ""},
	{"old function call", delta(`{"function_call":{"name":"now","arguments":"{"}}`) + finishing(`{"function_call":{"arguments":"}"}}`, "function_call") + done,
		calls("tool_calls", handlers.ModelCall{Name: "now", Arguments: "{}"}), ""},
	{"damaged event", delta(`{"content":"a"}`) + "data: {\"choices\":[{]}\n\n" + stopDone(), handlers.ModelReply{Content: "a"}, "bad_response"},
	{"plain text", "Service is being updated\n", handlers.ModelReply{}, "bad_response"},
	{"page", "\n<!doctype html><title>Sign in</title>", handlers.ModelReply{}, "bad_response"},
}

// roundTrip is a transport that answers by itself.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// bodyClient is a client whose server answers with one body.
func bodyClient(t testing.TB, body io.Reader) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: "http://model.test/v1", Model: "m", HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// heard puts the deltas of a reply together, as a consumer would.
type heard struct {
	content, reasoning strings.Builder
	calls              []handlers.ModelCall
	order              []string
}

func (h *heard) emit(d handlers.ModelDelta) error {
	switch {
	case d.Call != nil:
		if d.Call.Index > len(h.calls) {
			return fmt.Errorf("call %d comes before call %d", d.Call.Index, len(h.calls))
		}
		if d.Call.Index == len(h.calls) {
			if d.Call.Name == "" {
				return errors.New("a call is announced without a name")
			}
			h.calls = append(h.calls, handlers.ModelCall{ID: d.Call.ID, Name: d.Call.Name})
			h.order = append(h.order, "call "+d.Call.Name)
		} else if d.Call.Name != "" {
			return errors.New("a call is announced twice")
		}
		h.calls[d.Call.Index].Arguments += d.Call.Text
	case d.Reasoning != "" && d.Content == "":
		h.reasoning.WriteString(d.Reasoning)
		h.order = append(h.order, "reasoning")
	case d.Content != "" && d.Reasoning == "":
		h.content.WriteString(d.Content)
		h.order = append(h.order, "content")
	default:
		return errors.New("a delta has not exactly one field")
	}
	return nil
}

// replay runs a body through a client and checks what every reply must keep:
// its text is what was emitted.
func replay(t testing.TB, body io.Reader) (handlers.ModelReply, *heard, error) {
	t.Helper()
	h := &heard{}
	reply, err := bodyClient(t, body).Chat(context.Background(), handlers.ModelRequest{
		Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: "q"}},
		Tools:    []tool.Definition{{Name: "now"}, {Name: "search"}},
	}, h.emit)
	if reply.Content != h.content.String() || reply.Reasoning != h.reasoning.String() {
		t.Errorf("reply %q / %q differs from what was emitted: %q / %q", reply.Content, reply.Reasoning, h.content.String(), h.reasoning.String())
	}
	if err == nil && len(h.calls) > len(reply.Calls) {
		t.Errorf("%d calls announced, %d in the reply", len(h.calls), len(reply.Calls))
	}
	if !strings.HasPrefix(reply.RequestDigest, "sha256:") {
		t.Errorf("the digest of the request is %q", reply.RequestDigest)
	}
	reply.RequestDigest = "" // the fixtures are about what was read
	return reply, h, err
}

func codeOf(err error) string {
	var e *handlers.ModelError
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return "untyped: " + err.Error()
	}
	return ""
}
