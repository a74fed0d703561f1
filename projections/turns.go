package projections

import "fmt"

// turnsCollection lists the turns of each session, so that a fold can take all
// of them away. A document holds turnsPerPage runs: a long conversation does not
// rewrite its past.
const turnsCollection = "turns"

const turnsPerPage = 64

// turnList counts the turns of a session; its pages hold them.
type turnList struct {
	Count int `json:"count"`
}

type turnPage struct {
	Runs []string `json:"runs"`
}

func turnPageID(session string, n int) string { return fmt.Sprintf("%s:%06d", session, n) }

// addTurn notes a run as the newest of its session.
func addTurn(v *View, tenant, session, run string) {
	list := Get[turnList](v, turnsCollection, tenant, session)
	if list == nil {
		list = &turnList{}
	}
	id := turnPageID(session, list.Count/turnsPerPage)
	page := Get[turnPage](v, turnsCollection, tenant, id)
	if page == nil {
		page = &turnPage{}
	}
	page.Runs = append(page.Runs, run)
	list.Count++
	Put(v, turnsCollection, tenant, id, page, nil)
	Put(v, turnsCollection, tenant, session, list, nil)
}

// takeTurns forgets the turns of a session and gives their runs.
func takeTurns(v *View, tenant, session string) []string {
	list := Get[turnList](v, turnsCollection, tenant, session)
	if list == nil {
		return nil
	}
	var runs []string
	for n := 0; n*turnsPerPage < list.Count; n++ {
		id := turnPageID(session, n)
		if page := Get[turnPage](v, turnsCollection, tenant, id); page != nil {
			runs = append(runs, page.Runs...)
			Remove(v, turnsCollection, tenant, id)
		}
	}
	Remove(v, turnsCollection, tenant, session)
	return runs
}
