package api

import (
	"net/http"

	"refold/domain/key"
)

// What opens a route to API keys, beside a capability.
const (
	everyKey = "*" // every key that is valid
	noKey    = "-" // none: it is for the operator and the people of the tenant
	fullKey  = "+" // one with full access
)

// policies says which capability of an API key opens which route. A route that
// is not listed is closed to every key, so a new one is closed until somebody
// has thought about it.
var policies = map[string]string{
	"POST /api/v1/sessions":                                                     key.Chat,
	"GET /api/v1/sessions":                                                      key.Chat,
	"DELETE /api/v1/sessions/batch":                                             key.Chat,
	"GET /api/v1/sessions/continue-stream/{session}":                            key.Chat,
	"GET /api/v1/sessions/{session}":                                            key.Chat,
	"PUT /api/v1/sessions/{session}":                                            key.Chat,
	"DELETE /api/v1/sessions/{session}":                                         key.Chat,
	"DELETE /api/v1/sessions/{session}/messages":                                key.Chat,
	"POST /api/v1/sessions/{session}/pin":                                       key.Chat,
	"DELETE /api/v1/sessions/{session}/pin":                                     key.Chat,
	"POST /api/v1/sessions/{session}/generate_title":                            key.Chat,
	"POST /api/v1/sessions/{session}/stop":                                      key.Chat,
	"GET /api/v1/sessions/{session}/events":                                     key.Chat,
	"GET /api/v1/sessions/{session}/queue":                                      key.Chat,
	"PUT /api/v1/sessions/{session}/queue/{message}":                            key.Chat,
	"DELETE /api/v1/sessions/{session}/queue/{message}":                         key.Chat,
	"POST /api/v1/sessions/{session}/attachments":                               key.Chat,
	"GET /api/v1/sessions/{session}/attachments":                                key.Chat,
	"GET /api/v1/sessions/{session}/attachments/{attachment}":                   key.Chat,
	"GET /api/v1/sessions/{session}/attachments/{attachment}/preview":           key.Chat,
	"DELETE /api/v1/sessions/{session}/attachments/{attachment}":                key.Chat,
	"GET /api/v1/sessions/{session}/messages/{message}/files":                   key.Chat,
	"POST /api/v1/agent-chat/{session}":                                         key.Chat,
	"POST /api/v1/knowledge-chat/{session}":                                     key.Chat,
	"GET /api/v1/messages/{session}/load":                                       key.Chat,
	"DELETE /api/v1/messages/{session}/{message}":                               key.Chat,
	"POST /api/v1/messages/search":                                              key.MessageHistory,
	"GET /api/v1/messages/chat-history-stats":                                   key.MessageHistory,
	"GET /api/v1/usage":                                                         key.MessageHistory,
	"GET /api/v1/tool-log":                                                      key.MessageHistory,
	"GET /api/v1/runs":                                                          key.MessageHistory,
	"GET /api/v1/runs/{run}":                                                    key.MessageHistory,
	"GET /api/v1/runs/{run}/memory":                                             key.MessageHistory,
	"GET /api/v1/agents":                                                        key.ReadAgents,
	"GET /api/v1/agents/{agent}":                                                key.ReadAgents,
	"POST /api/v1/knowledge-bases":                                              key.ManageKBs,
	"GET /api/v1/knowledge-bases":                                               key.Retrieve,
	"GET /api/v1/knowledge-bases/{base}":                                        key.Retrieve,
	"PUT /api/v1/knowledge-bases/{base}":                                        key.ManageKBs,
	"DELETE /api/v1/knowledge-bases/{base}":                                     key.ManageKBs,
	"PUT /api/v1/knowledge-bases/{base}/pin":                                    key.Retrieve,
	"POST /api/v1/knowledge-bases/{base}/duplicate":                             key.ManageKBs,
	"GET /api/v1/knowledge-bases/{base}/move-targets":                           key.Retrieve,
	"POST /api/v1/knowledge-bases/copy":                                         key.ManageKBs,
	"GET /api/v1/knowledge-bases/copy/progress/{task}":                          key.Retrieve,
	"POST /api/v1/knowledge-bases/{base}/hybrid-search":                         key.Retrieve,
	"GET /api/v1/knowledge-bases/{base}/hybrid-search":                          key.Retrieve,
	"POST /api/v1/knowledge-search":                                             key.Retrieve,
	"POST /api/v1/knowledge-bases/{base}/knowledge/file":                        key.Ingest,
	"POST /api/v1/knowledge-bases/{base}/knowledge/url":                         key.Ingest,
	"POST /api/v1/knowledge-bases/{base}/knowledge/manual":                      key.Ingest,
	"GET /api/v1/knowledge-bases/{base}/knowledge":                              key.Retrieve,
	"DELETE /api/v1/knowledge-bases/{base}/knowledge":                           fullKey,
	"GET /api/v1/knowledge-bases/{base}/knowledge/folders":                      key.Retrieve,
	"PUT /api/v1/knowledge-bases/{base}/knowledge/folders":                      key.Ingest,
	"GET /api/v1/knowledge/batch":                                               key.Retrieve,
	"GET /api/v1/knowledge/search":                                              key.Retrieve,
	"PUT /api/v1/knowledge/tags":                                                key.Ingest,
	"POST /api/v1/knowledge/move":                                               key.Ingest,
	"GET /api/v1/knowledge/move/progress/{task}":                                key.Retrieve,
	"POST /api/v1/knowledge/folder":                                             key.Ingest,
	"POST /api/v1/knowledge/batch-delete":                                       key.Ingest,
	"POST /api/v1/knowledge/batch-reparse":                                      key.Ingest,
	"PUT /api/v1/knowledge/manual/{document}":                                   key.Ingest,
	"GET /api/v1/knowledge/{document}":                                          key.Retrieve,
	"PUT /api/v1/knowledge/{document}":                                          key.Ingest,
	"DELETE /api/v1/knowledge/{document}":                                       key.Ingest,
	"GET /api/v1/knowledge/{document}/spans":                                    key.Retrieve,
	"GET /api/v1/knowledge/{document}/stages":                                   key.Retrieve,
	"POST /api/v1/knowledge/{document}/reparse":                                 key.Ingest,
	"POST /api/v1/knowledge/{document}/cancel-parse":                            key.Ingest,
	"GET /api/v1/knowledge/{document}/download":                                 key.Retrieve,
	"GET /api/v1/knowledge/{document}/preview":                                  key.Retrieve,
	"GET /api/v1/chunks/{document}":                                             key.Retrieve,
	"DELETE /api/v1/chunks/{document}":                                          key.Ingest,
	"GET /api/v1/chunks/by-id/{chunk}":                                          key.Retrieve,
	"PUT /api/v1/chunks/{document}/{chunk}":                                     key.Ingest,
	"DELETE /api/v1/chunks/{document}/{chunk}":                                  key.Ingest,
	"GET /api/v1/chunks/{document}/{chunk}/revisions":                           key.Retrieve,
	"POST /api/v1/chunks/{document}/{chunk}/revert":                             key.Ingest,
	"POST /api/v1/chunker/preview":                                              key.Retrieve,
	"GET /api/v1/knowledge-bases/{base}/faq/entries":                            key.Retrieve,
	"POST /api/v1/knowledge-bases/{base}/faq/entries":                           key.Ingest,
	"DELETE /api/v1/knowledge-bases/{base}/faq/entries":                         key.Ingest,
	"GET /api/v1/knowledge-bases/{base}/faq/entries/export":                     key.Retrieve,
	"PUT /api/v1/knowledge-bases/{base}/faq/entries/fields":                     key.Ingest,
	"PUT /api/v1/knowledge-bases/{base}/faq/entries/tags":                       key.Ingest,
	"GET /api/v1/knowledge-bases/{base}/faq/entries/{entry}":                    key.Retrieve,
	"PUT /api/v1/knowledge-bases/{base}/faq/entries/{entry}":                    key.Ingest,
	"POST /api/v1/knowledge-bases/{base}/faq/entries/{entry}/similar-questions": key.Ingest,
	"POST /api/v1/knowledge-bases/{base}/faq/entry":                             key.Ingest,
	"POST /api/v1/knowledge-bases/{base}/faq/search":                            key.Retrieve,
	"PUT /api/v1/knowledge-bases/{base}/faq/import/last-result/display":         key.Ingest,
	"GET /api/v1/faq/import/progress/{task}":                                    key.Retrieve,
	"GET /api/v1/knowledge-bases/{base}/tags":                                   key.Retrieve,
	"POST /api/v1/knowledge-bases/{base}/tags":                                  key.Ingest,
	"PUT /api/v1/knowledge-bases/{base}/tags/{tag}":                             key.Ingest,
	"DELETE /api/v1/knowledge-bases/{base}/tags/{tag}":                          key.Ingest,
	"GET /api/v1/tenants":                                                       everyKey,
	"GET /api/v1/tenants/{tenant}":                                              everyKey,
	"GET /metrics":                                                              noKey,
	"POST /api/v1/tenants":                                                      noKey,
	"GET /api/v1/tenants/all":                                                   noKey,
	"GET /api/v1/tenants/{tenant}/api-keys":                                     noKey,
	"POST /api/v1/tenants/{tenant}/api-keys":                                    noKey,
	"PUT /api/v1/tenants/{tenant}/api-keys/{key}":                               noKey,
	"DELETE /api/v1/tenants/{tenant}/api-keys/{key}":                            noKey,
	"GET /api/v1/agent/tool-approvals":                                          noKey, // a person answers approvals
	"GET /api/v1/views":                                                         noKey,
	"POST /api/v1/views/{view}/rebuild":                                         noKey,
	"POST /api/v1/agent/tool-approvals/{approval}":                              noKey,
}

// permitted tells whether a principal may use the route; nil if so. What is no
// route at all is answered by the router.
func permitted(p *principal) *refusal {
	if p.key == nil || p.route == "" {
		return nil
	}
	policy, listed := policies[p.route]
	switch {
	case !listed || policy == noKey:
		return &refusal{http.StatusForbidden, "this route is closed to API keys"}
	case policy == everyKey || p.key.Grant.Holds(policy):
		return nil
	}
	if policy == fullKey {
		return &refusal{http.StatusForbidden, "this route asks for an API key with full access"}
	}
	return &refusal{http.StatusForbidden, "this API key lacks the capability " + policy + " that this route asks for"}
}
