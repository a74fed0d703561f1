package projections

import "fmt"

// itemsPerPage is how many items one document of a list holds: a long list does
// not rewrite its past.
const itemsPerPage = 64

// listHead counts the items of a list that a projection keeps for itself, so that
// a fold can take away all that belongs together; its pages hold them.
type listHead struct {
	Count int `json:"count"`
}

type listPage struct {
	Items []string `json:"items"`
}

func listPageID(name string, n int) string { return fmt.Sprintf("%s:%06d", name, n) }

// addItem adds an item to the end of a list.
func addItem(v *View, collection, tenant, name, item string) {
	list := Get[listHead](v, collection, tenant, name)
	if list == nil {
		list = &listHead{}
	}
	id := listPageID(name, list.Count/itemsPerPage)
	page := Get[listPage](v, collection, tenant, id)
	if page == nil {
		page = &listPage{}
	}
	page.Items = append(page.Items, item)
	list.Count++
	Put(v, collection, tenant, id, page, nil)
	Put(v, collection, tenant, name, list, nil)
}

// takeItems forgets a list and gives its items.
func takeItems(v *View, collection, tenant, name string) []string {
	list := Get[listHead](v, collection, tenant, name)
	if list == nil {
		return nil
	}
	var items []string
	for n := 0; n*itemsPerPage < list.Count; n++ {
		id := listPageID(name, n)
		if page := Get[listPage](v, collection, tenant, id); page != nil {
			items = append(items, page.Items...)
			Remove(v, collection, tenant, id)
		}
	}
	Remove(v, collection, tenant, name)
	return items
}

// turnsCollection lists the turns of each session, by their runs.
const turnsCollection = "turns"
