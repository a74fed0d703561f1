package openai

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// A server that points to another one is named with where it points, and nothing
// is sent there, neither the conversation nor the key.
func TestRedirect_ToAnotherServer(t *testing.T) {
	other := scripted.New(t)
	other.Always(scripted.Say(scripted.Text("stolen")))
	other.Models("stolen")
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(other.URL+"/chat/completions?key=query-secret", status))
		defer s.Close()
		for _, model := range []string{"m", ""} { // "" asks for /models first
			c, err := New(Config{BaseURL: s.URL + "/v1", Model: model, APIKey: "s3cr3t-key-0815"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Chat(t.Context(), ask("q"), (&heard{}).emit)
			e := typed(t, err)
			if e.Code != "bad_response" || e.Transient || !strings.Contains(e.Message, "redirects to "+other.URL) || !strings.Contains(e.Message, "base_url") || strings.Contains(e.Message, "secret") {
				t.Errorf("%d %q: %+v", status, model, e)
			}
		}
		em, err := NewEmbedder(Config{BaseURL: s.URL + "/v1", Model: "m"}, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := em.Embed(t.Context(), []string{"q"}); err == nil || !strings.Contains(err.Error(), "redirects to "+other.URL) {
			t.Errorf("%d: embeddings: %v", status, err)
		}
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("the other server got %d requests", n)
	}
}

// On its own server a redirect may say another path, as long as the request stays
// what it is.
func TestRedirect_OnTheSameServer(t *testing.T) {
	for status, works := range map[int]bool{301: false, 302: false, 303: false, 307: true, 308: true} {
		s := scripted.New(t)
		s.Push(scripted.Respond(status, map[string]string{"Location": s.URL + "/chat/completions?again"}, ""), scripted.Say(scripted.Text("here")))
		c, _ := clientOf(t, s)
		reply, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
		if works && (err != nil || reply.Content != "here") || !works && (err == nil || !strings.Contains(err.Error(), "take the conversation out")) {
			t.Errorf("%d: %+v %v", status, reply, err)
		}
	}
	s := scripted.New(t)
	s.Always(scripted.Respond(307, map[string]string{"Location": s.URL + "/chat/completions"}, ""))
	c, _ := clientOf(t, s)
	if _, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("after %d others", maxRedirects)) {
		t.Errorf("round in circles: %v", err)
	}
}
