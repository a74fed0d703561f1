package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/run"
	"refold/projections"
)

// listApprovals is the inbox: filters status, session, run, from, to.
func (a *API) listApprovals(w http.ResponseWriter, r *http.Request) {
	filtered[projections.ApprovalEntry](a, w, r, projections.Approvals, "status", "session", "run")
}

// resolveApproval records a person's decision.
func (a *API) resolveApproval(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Decision string          `json:"decision"`
		Reason   string          `json:"reason"`
		Args     json.RawMessage `json:"modified_args"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	if b.Decision != "approve" && b.Decision != "reject" {
		a.fail(w, r, invalid(`decision must be "approve" or "reject"`))
		return
	}
	// Absent means unchanged; null is no object and is refused by the rule.
	if t := strings.TrimSpace(string(b.Args)); t != "" && !strings.HasPrefix(t, "{") {
		a.fail(w, r, run.ErrBadArguments)
		return
	}
	err := a.fresh(r, projections.Approvals)
	var entry *projections.ApprovalEntry
	if err == nil {
		entry, err = one[projections.ApprovalEntry](r.Context(), a, projections.Approvals, tenant(r), chi.URLParam(r, "approval"))
	}
	if err == nil && entry == nil {
		err = run.ErrApprovalNotFound
	}
	if err == nil {
		pos, resolveErr := a.Commands.ResolveApproval(r.Context(), caller(r), commands.Decision{Run: entry.Run, Approval: entry.ID,
			Approve: b.Decision == "approve", Reason: b.Reason, Args: b.Args})
		positionHeader(w, pos)
		err = resolveErr
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, body{"success": true})
}
