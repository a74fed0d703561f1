package session_test

import (
	"errors"
	"testing"
	"time"

	"refold/domain"
	"refold/domain/session"
)

func TestPin_Again(t *testing.T) {
	pinned, un := session.SessionPinned{At: t0}, session.SessionUnpinned{At: t0}
	given(t, created).When(session.Pin{On: true, Now: t0}).Then(pinned)
	given(t, created, pinned).When(session.Pin{On: true, Now: t0}).Then()
	given(t, created, pinned).When(session.Pin{Now: t0}).Then(un)
	given(t, created, pinned, un).When(session.Pin{Now: t0}).Then()
	given(t, created, deleted).When(session.Pin{On: true, Now: t0}).Refused(session.ErrNotFound)
}

func TestClear_NeedsTheEnd(t *testing.T) {
	cleared := session.MessagesCleared{At: t0}
	given(t, created, first).When(session.Clear{Now: t0}).Refused(session.ErrRunInProgress)
	s := given(t, created, first).When(session.Clear{EndedRun: "r1", Now: t0}).Then(cleared).State()
	if len(s.Posts) != 0 || s.LastRun() != "" || s.Clears != 1 {
		t.Errorf("%+v", s)
	}
	given(t, created, first, cleared).When(session.Clear{Now: t0}).Then()
	given(t, created, first, cleared).When(session.Post{MessagePosted: second}).Then(second)
}

func TestDeleteMessage_Halves(t *testing.T) {
	gone := session.MessageDeleted{Message: "m1", Run: "r1", At: t0}
	c := given(t, created, first)
	c.When(session.DeleteMessage{Message: "m1", Now: t0}).Refused(session.ErrRunInProgress)
	c.When(session.DeleteMessage{Message: "m9", EndedRun: "r1", Now: t0}).Refused(session.ErrNoMessage)
	s := c.When(session.DeleteMessage{Message: "m1", EndedRun: "r1", Now: t0}).Then(gone).State()
	if s.Kept(first) {
		t.Error("the turn is kept")
	}
	c.When(session.DeleteMessage{Message: "m1", EndedRun: "r1", Now: t0}).Refused(session.ErrNoMessage)
	c.When(session.DeleteMessage{Message: "r1", EndedRun: "r1", Now: t0}).Then(session.MessageDeleted{Message: "r1", Run: "r1", At: t0})
	given(t, created, first, session.RunDiscarded{Run: "r1", At: t0}).When(session.DeleteMessage{Message: "m1", EndedRun: "r1", Now: t0}).Refused(session.ErrNoMessage)
}

func TestTitle_OneClaimOneTitle(t *testing.T) {
	blank := created
	blank.Title = ""
	claim := func(owner string, at time.Time) session.ClaimTitle {
		return session.ClaimTitle{TitleClaimed: session.TitleClaimed{Run: "r1", Owner: owner, Deadline: at.Add(time.Minute), At: at}}
	}
	titled := session.SessionTitled{Run: "r1", Title: "T", Source: session.TitleByModel, At: t0}
	given(t, created, first).When(claim("a", t0)).Refused(session.ErrTitleNotDue) // it has a title
	given(t, blank).When(claim("a", t0)).Refused(session.ErrTitleNotDue)          // no such message
	silent := first
	silent.NoTitle = true
	given(t, blank, silent).When(claim("a", t0)).Refused(session.ErrTitleNotDue)
	given(t, blank, first, session.MessageDeleted{Message: "m1", Run: "r1", At: t0}).When(claim("a", t0)).Refused(session.ErrTitleNotDue)

	c := given(t, blank, first).When(claim("a", t0)).Then(claim("a", t0).TitleClaimed)
	c.When(claim("b", t0)).Refused(session.ErrTitleNotDue)
	sole := claim("b", t0)
	sole.Sole = true
	given(t, blank, first, claim("a", t0).TitleClaimed).When(sole).Then(sole.TitleClaimed)
	c.When(session.RecordTitle{SessionTitled: titled, Owner: "b"}).Then() // not its claim
	late := claim("b", t0.Add(time.Minute))
	c.When(late).Then(late.TitleClaimed)
	c.When(session.RecordTitle{SessionTitled: titled, Owner: "a"}).Then() // the claim was lost
	c.When(session.RecordTitle{SessionTitled: titled, Owner: "b"}).Then(titled)
	c.When(session.RecordTitle{SessionTitled: titled, Owner: "b"}).Then()
	asked := session.SessionTitled{Title: "Other", Source: session.TitleByModel, At: t0}
	if s := c.When(session.RecordTitle{SessionTitled: asked, Asked: true}).Then(asked).State(); s.Title != "Other" {
		t.Error(s.Title)
	}
}

func TestAttach_Bounded(t *testing.T) {
	a := session.AttachmentAdded{Media: domain.Media{ID: "x", Name: "n"}, Status: session.AttachmentReady, At: t0}
	c := given(t, created)
	for range session.MaxAttachments {
		c.When(session.Attach{AttachmentAdded: a}).Then(a)
	}
	c.When(session.Attach{AttachmentAdded: a}).Refused(session.ErrTooManyAttachments)
	removed := session.AttachmentRemoved{Attachment: "x", At: t0}
	c = given(t, created, a).When(session.Detach{AttachmentRemoved: removed}).Then(removed)
	if err := c.When(session.Detach{AttachmentRemoved: removed}).Err(); !errors.Is(err, session.ErrNoAttachment) {
		t.Error(err)
	}
}
