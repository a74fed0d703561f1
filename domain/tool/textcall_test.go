package tool

import (
	"reflect"
	"testing"
)

func TestP31_CallsWrittenAsText(t *testing.T) {
	known := func(name string) bool { return name == "now" || name == "search" }
	nowCall := []TextCall{{"now", "{}"}}
	for name, c := range map[string]struct {
		content string
		calls   []TextCall
		cut     bool
	}{
		"tagged":                {`<tool_call>{"name":"now","arguments":{}}</tool_call>`, nowCall, false},
		"DSML":                  {"<｜DSML｜tool_calls><｜DSML｜invoke name=\"now\"></｜DSML｜invoke></｜DSML｜tool_calls>", nowCall, false},
		"cut":                   {`<tool_call>{"name":"now","arguments":{}}`, nil, true},
		"prose":                 {`Qwen writes <tool_call> around JSON.`, nil, false},
		"prose at the end":      {`The tag is <tool_call>`, nil, false},
		"two, with text":        {"I look.\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>\n<tool_call>{\"name\":\"search\",\"arguments\":\"{\\\"q\\\": \\\"天气\\\"}\"}</tool_call>", []TextCall{{"now", "{}"}, {"search", `{"q":"天气"}`}}, false},
		"unknown name":          {`<tool_call>{"name":"rm","arguments":{}}</tool_call>`, nil, false},
		"unknown name, cut":     {`<tool_call>{"name":"rm","argu`, nil, false},
		"cut in the name":       {`<tool_call>{"na`, nil, true},
		"cut after the tag":     {"Let me see.\n<tool_call>", nil, true},
		"cut second":            {`<tool_call>{"name":"now"}</tool_call><tool_call>{"name":"search","arg`, nowCall, true},
		"unreadable":            {`<tool_call>{"name":"now","arguments":{]}</tool_call>`, nil, true},
		"arguments no object":   {`<tool_call>{"name":"now","arguments":[1]}</tool_call>`, nil, true},
		"capitals":              {`<TOOL_CALL>{"name":"now"}</TOOL_CALL>`, nowCall, false},
		"function form":         {"<tool_call>\n<function=search>\n<parameter=q>\na < b\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>", []TextCall{{"search", `{"n":3,"q":"a \u003c b"}`}}, false},
		"function form, cut":    {"<tool_call>\n<function=search>\n<parameter=q>\na", nil, true},
		"DSML with parameters":  {"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"q\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", []TextCall{{"search", `{"n":1,"q":"1"}`}}, false},
		"DSML with plain bars":  {`<|DSML|tool_calls><|DSML|invoke name="now"></|DSML|invoke></|DSML|tool_calls>`, nowCall, false},
		"DSML cut":              {"<｜DSML｜tool_calls><｜DSML｜invoke name=\"now\">", nil, true},
		"DSML cut at the start": {"<｜DSML｜tool_calls>", nil, true},
		"DSML prose":            {"The opener <｜DSML｜tool_calls> begins a list.", nil, false},
		"in a fence":            {"An example:\n```\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n```\nThat is it.", nil, false},
		"in inline code":        {"Write `<tool_call>{\"name\":\"now\"}</tool_call>` for it.", nil, false},
		"backticks inside":      {"<tool_call>{\"name\":\"search\",\"arguments\":{\"q\":\"`x`\"}}</tool_call>", []TextCall{{"search", "{\"q\":\"`x`\"}"}}, false},
		"comparison":            {"a < b and <b>bold</b>", nil, false},
		"empty":                 {"", nil, false},
	} {
		calls, cut := TextCalls(c.content, known)
		if !reflect.DeepEqual(calls, c.calls) || cut != c.cut {
			t.Errorf("%s: got %q, cut %v; want %q, cut %v", name, calls, cut, c.calls, c.cut)
		}
	}
}
