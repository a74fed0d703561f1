package e2e

import (
	"strings"
	"testing"
)

type found struct {
	Items []struct {
		SessionID string `json:"session_id"`
		Title     string `json:"session_title"`
		Question  string `json:"query_content"`
		Answer    string `json:"answer_content"`
		Score     float64
		MatchType string `json:"match_type"`
		Run       string `json:"run_id"`
		Request   string `json:"request_id"`
	}
	Total          int
	Mode, Fallback string
}

func (c client) find(t testing.TB, in map[string]any) found {
	t.Helper()
	var f found
	c.do(t, "POST", "/api/v1/messages/search", in).data(t, 200, &f)
	return f
}

func (f found) questions() string {
	var out []string
	for _, i := range f.Items {
		out = append(out, i.Question)
	}
	return strings.Join(out, "|")
}

// TestSearchMessages: words and two-character Chinese words, whole turns, one
// session only, deleted and cleared ones never.
func TestSearchMessages(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("Nightly backups run at two."), say("发票报销需要三天。"), say("The category is art."), say("Start it."), say("Half"))
	one, two := l.titled(t, "Ops", ""), l.titled(t, "财务", "")
	l.chat(t, one, "When do backups run?").rest(t)
	money := l.chat(t, two, "怎么报销发票?")
	money.rest(t)
	l.chat(t, one, "What art is this?").rest(t)
	last := l.chat(t, one, "How do I begin?")
	last.rest(t)
	for _, c := range []struct {
		in   map[string]any
		want string
	}{
		{map[string]any{"query": "BACKUP"}, "When do backups run?"},
		{map[string]any{"query": "报销", "mode": "keyword"}, "怎么报销发票?"},
		{map[string]any{"query": "发票"}, "怎么报销发票?"},
		{map[string]any{"query": "报销三天"}, "怎么报销发票?"}, // in pieces
		{map[string]any{"query": "art"}, "What art is this?"},
		{map[string]any{"query": "art", "session_ids": []string{two}}, ""},
		{map[string]any{"query": "art", "session_ids": []string{"", ""}}, "What art is this?"},
		{map[string]any{"query": "art", "session_ids": []string{"no\nid"}}, ""},
		{map[string]any{"query": "报销", "session_ids": []string{two, "none", ""}}, "怎么报销发票?"},
		{map[string]any{"query": "two nightly"}, "When do backups run?"},
		{map[string]any{"query": "zebra"}, ""},
		{map[string]any{"query": "% _ it"}, "How do I begin?"},
	} {
		f := l.find(t, c.in)
		if f.questions() != c.want || f.Mode != "keyword" || f.Fallback != "" {
			t.Errorf("%v finds %+v", c.in, f)
		}
	}
	f := l.find(t, map[string]any{"query": "发票", "mode": "hybrid", "limit": 1})
	if f.Total != 1 || !strings.Contains(f.Fallback, "keyword") || f.Items[0].Title != "财务" || f.Items[0].Answer != "发票报销需要三天。" ||
		f.Items[0].SessionID != two || f.Items[0].MatchType != "keyword" || f.Items[0].Score <= 0 || f.Items[0].Run != money.run() || f.Items[0].Request == "" {
		t.Errorf("%+v", f)
	}
	stats := func(want string) {
		t.Helper()
		l.do(t, "GET", "/api/v1/messages/chat-history-stats", nil).same(t, 200, `{"success":true,"data":`+want+`}`)
	}
	stats(`{"enabled":true,"indexed_message_count":8,"has_indexed_messages":true}`)
	l.do(t, "DELETE", "/api/v1/messages/"+one+"/"+last.run(), nil).data(t, 200, new(any))
	if f := l.find(t, map[string]any{"query": "start it"}); f.questions() != "" {
		t.Errorf("a deleted answer is found: %+v", f)
	}
	if f := l.find(t, map[string]any{"query": "begin"}); f.questions() != "How do I begin?" || f.Items[0].Answer != "" {
		t.Errorf("the question of a deleted answer: %+v", f)
	}
	l.do(t, "DELETE", "/api/v1/sessions/"+one+"/messages", nil)
	if f := l.find(t, map[string]any{"query": "backups"}); f.Total != 0 {
		t.Errorf("a cleared turn is found: %+v", f)
	}
	l.do(t, "DELETE", "/api/v1/sessions/"+two, nil)
	stats(`{"enabled":true,"indexed_message_count":0,"has_indexed_messages":false}`)
	for _, bad := range []map[string]any{{}, {"query": " ?! "}, {"query": strings.Repeat("q", 1001)}, {"query": "q", "limit": 101}, {"query": "q", "limit": -1},
		{"query": "q", "mode": "magic"}, {"query": "q", "session_ids": strings.Split(strings.Repeat("x,", 101), ",")},
		{"query": "q", "session_ids": make([]string, 101)}} {
		l.do(t, "POST", "/api/v1/messages/search", bad).refused(t, 400, 1000, "bad_request", "")
	}
}
