package projections

import (
	"refold/domain/event"
	"refold/domain/knowledge"
)

// Transfers are the transfers that are not over: OwingCollection has them. Who
// asks how far one is reads its stream.
var Transfers = Projection{Name: "transfers", Version: 1, Filter: event.Filter{Categories: []string{knowledge.TransferCategory}}, Fold: foldTransfer}

func foldTransfer(v *View, f Fact) {
	switch e := f.Event.(type) {
	case knowledge.TransferRequested:
		owe(v, f, e.Source, true)
	case knowledge.TransferEnded:
		owe(v, f, "", false)
	}
}
