package knowledge_test

import (
	"errors"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/tests/scenario"
)

var transfers = scenario.Decider[knowledge.Transfer, knowledge.TransferCommand, knowledge.TransferEvent]{Decide: knowledge.DecideTransfer, Evolve: knowledge.EvolveTransfer}

// One process at a time works on a transfer, for as long as it says how far it is.
func TestTransfer(t *testing.T) {
	asked := knowledge.TransferRequested{Transfer: "t1", Source: "b1", Target: "b2", Documents: knowledge.Blob{Digest: "sha256:d"}, Total: 2, Mode: knowledge.TransferKeep, Move: true, At: t0}
	claim := func(self string, now time.Time) knowledge.ClaimTransfer {
		return knowledge.ClaimTransfer{Moment: knowledge.Moment{Now: now, Self: self}, Deadline: now.Add(knowledge.TransferTime)}
	}
	record := func(owner string, e knowledge.TransferEvent) knowledge.RecordTransfer {
		return knowledge.RecordTransfer{Owner: owner, Event: e}
	}
	c := transfers.Given(t).When(knowledge.RequestTransfer{TransferRequested: asked}).Then(asked)
	c.When(knowledge.RequestTransfer{TransferRequested: asked}).Refused(knowledge.ErrTransferring)
	c.When(record("w1", knowledge.TransferEnded{})).Then() // who has not claimed it says nothing
	c.When(claim("w1", t0)).Kinds("TransferStarted")
	c.When(claim("w2", t0.Add(time.Minute))).Refused(knowledge.ErrNotDue)
	at := t0.Add(50 * time.Minute)
	c.When(record("w1", knowledge.TransferProgressed{Done: 1, At: at})).Kinds("TransferProgressed")
	c.When(claim("w2", t0.Add(knowledge.TransferTime))).Refused(knowledge.ErrNotDue) // the report has prolonged it
	c.When(claim("w2", at.Add(knowledge.TransferTime))).Kinds("TransferStarted")
	c.When(record("w1", knowledge.TransferEnded{At: at})).Then()
	c.When(record("w2", knowledge.TransferProgressed{Done: 1, Released: true, At: at})).Kinds("TransferProgressed")
	c.When(claim("w3", at)).Kinds("TransferStarted")
	c.When(record("w3", knowledge.TransferEnded{Done: 2, Failed: 1, At: at})).Kinds("TransferEnded")
	c.When(record("w3", knowledge.TransferProgressed{Done: 2})).Then()
	c.When(claim("w3", at.Add(9*knowledge.TransferTime))).Refused(knowledge.ErrNotDue)
	if x := c.State(); x.Attempts != 3 || x.Done != 2 || x.Failed != 1 || x.Ended == nil {
		t.Errorf("%+v", x)
	}
	for name, change := range map[string]func(*knowledge.TransferRequested){
		"the same base": func(q *knowledge.TransferRequested) { q.Target = q.Source }, "a mode": func(q *knowledge.TransferRequested) { q.Mode = "x" },
		"nothing to move": func(q *knowledge.TransferRequested) { q.Total = 0 }, "too many": func(q *knowledge.TransferRequested) { q.Total = knowledge.MaxMove + 1 },
		"no list": func(q *knowledge.TransferRequested) { q.Documents = knowledge.Blob{} },
	} {
		bad := asked
		change(&bad)
		if transfers.Given(t).When(knowledge.RequestTransfer{TransferRequested: bad}).Err() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestBase_Fits(t *testing.T) {
	base := func(id, kind, embedding string) knowledge.Base {
		return knowledge.Base{Created: &knowledge.BaseCreated{Base: id, Kind: kind}, Settings: knowledge.Settings{Embedding: embedding}}
	}
	source := base("b1", knowledge.KindDocument, "")
	for _, c := range []struct {
		target knowledge.Base
		want   error
	}{{base("b2", knowledge.KindDocument, ""), nil}, {source, knowledge.ErrSameBase}, {base("b2", knowledge.KindFAQ, ""), knowledge.ErrOtherKind}, {base("b2", knowledge.KindDocument, "m"), knowledge.ErrOtherVectors}} {
		if err := source.Fits(c.target); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.target.Created, err, c.want)
		}
	}
}
