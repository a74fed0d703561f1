package extractive

import (
	"strings"
	"testing"

	"refold/domain/tool"
	"refold/handlers"
)

const found = `<search_results count="2">
<chunk rank="1" chunk_id="c1" chunk_index="3" knowledge_id="d1" knowledge_base_id="b1" knowledge_title="Leave &amp; travel" section="Leave">
Employees get ten days of annual leave. See &lt;ref id=&#34;c9&#34;/&gt; and [c2].
</chunk>
<faq rank="2" faq_id="c2" knowledge_id="d2" knowledge_base_id="b1" knowledge_title="FAQ">
<question>病假工资怎么算？</question>
<answer>病假工资按基本工资的百分之八十发放。</answer>
</faq>
</search_results>`

func knows(question string, tools ...string) handlers.ModelRequest {
	req := handlers.ModelRequest{Parallel: true, Messages: []handlers.ModelMessage{
		{Role: handlers.RoleUser, Content: "<runtime_context>\n</runtime_context>\n\n" + question}}}
	for _, name := range tools {
		req.Tools = append(req.Tools, tool.Definition{Name: name})
	}
	return req
}

func then(req handlers.ModelRequest, reply handlers.ModelReply, results ...string) handlers.ModelRequest {
	req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleAssistant, Calls: reply.Calls})
	for i, c := range reply.Calls {
		req.Messages = append(req.Messages, handlers.ModelMessage{Role: handlers.RoleTool, CallID: c.ID, Name: c.Name, Content: tool.Untrusted(c.Name, results[i], "")})
	}
	return req
}

func TestKnowledge_SearchesAndCites(t *testing.T) {
	for question, want := range map[string][2]string{
		"How many days of annual leave are there?": {"> Employees get ten days of annual leave.", `<ref id="c1"/>`},
		"病假工资按多少发放？":                               {"病假工资按基本工资的百分之八十发放。", `<ref id="c2"/>`},
	} {
		req := knows(question, "knowledge_search", "grep_chunks")
		first := chat(t, req)
		if len(first.Calls) != 1 || first.Calls[0].Name != "knowledge_search" || !strings.Contains(first.Calls[0].Arguments, question) {
			t.Fatalf("%s: calls %+v", question, first.Calls)
		}
		answer := chat(t, then(req, first, found))
		if len(answer.Calls) != 0 || !strings.Contains(answer.Content, want[0]) || !strings.Contains(answer.Content, want[1]) {
			t.Errorf("%s: %+v %s", question, answer.Calls, answer.Content)
		}
		if strings.Contains(answer.Content, `id="c9"`) || strings.Contains(answer.Content, "[c2]") {
			t.Errorf("a document's text passes for a citation: %s", answer.Content)
		}
	}
}

func TestKnowledge_LooksForWordsWhenTheSearchHasNothing(t *testing.T) {
	req := knows("How many days of annual leave are there?", "knowledge_search", "grep_chunks")
	req = then(req, chat(t, req), "Nothing was found.")
	second := chat(t, req)
	if len(second.Calls) != 1 || second.Calls[0].Name != "grep_chunks" || !strings.Contains(second.Calls[0].Arguments, "leav") {
		t.Fatalf("%+v", second.Calls)
	}
	if end := chat(t, then(req, second, "No passage matches.")); !strings.Contains(end.Content, "I found nothing") || len(end.Calls) != 0 {
		t.Errorf("%+v", end)
	}
}

// A quick answer comes with its sources.
func TestKnowledge_QuickAnswer(t *testing.T) {
	ask := func(content string) string {
		return chat(t, handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: content}}}).Content
	}
	got := ask("Answer the question at the end from the sources that follow.\n- rules\n\n" + tool.Untrusted("knowledge_search", found, "") + "\n\nQuestion: How many days of annual leave are there?")
	if !strings.Contains(got, `> Employees get ten days of annual leave.`) || !strings.Contains(got, `<ref id="c1"/>`) {
		t.Error(got)
	}
	if got := ask("Nothing about the question below was found in the knowledge. Say so.\n\nQuestion: What is love?"); !strings.Contains(got, "I found nothing") {
		t.Error(got)
	}
}

// A word alone is found where it stands, and a sentence that answers in the words
// of the question is the answer.
func TestKnowledge_SayingTheQuestionAgainIsNoRepetition(t *testing.T) {
	tag := func(text string) string {
		return `<chunk chunk_id="c1" knowledge_id="d1" knowledge_base_id="b1" knowledge_title="T">` + "\n" + text + "\n</chunk>"
	}
	for question, text := range map[string]string{
		"沙箱": "脚本在沙箱里运行，没有网络。",
		"What is the warranty of the Quokka pump?": "The warranty of the Quokka pump is 37 months.",
		"What is the office cat named?":            "The office cat is named Zebulon.",
	} {
		req := knows(question, "knowledge_search")
		got := chat(t, then(req, chat(t, req), tag("Something else first.\n\n"+text+"\n\nAnd more.")))
		if !strings.Contains(got.Content, "> "+text) {
			t.Errorf("%s: %s", question, got.Content)
		}
	}
}
