package projections

import "refold/domain/event"

// member is a projection that is being kept up to date.
type member struct {
	Projection
	at    event.Position // folded up to here, in memory
	saved event.Position // the stored checkpoint
	since int            // facts folded after saved
	bytes int            // of these facts
	st    *status
	fresh *renewal // set while this is a copy that is being built
	view  *View    // documents at the position at; nil if not all of them can be known
}

// ahead tells whether readers would find something else than what is folded.
func (m *member) ahead() bool {
	return m.at > m.saved && (m.Exact || m.view != nil && m.view.changed())
}

// full tells whether too much is folded and not stored.
func (m *member) full() bool { return m.since >= maxUnsaved || m.bytes >= maxUnsavedBytes }

// stored says that everything folded is stored.
func (m *member) stored() {
	m.view.committed()
	m.saved, m.since, m.bytes = m.at, 0, 0
}

// back forgets what is folded and not stored.
func (m *member) back(saved event.Position) {
	m.at, m.saved, m.since, m.bytes, m.view = saved, saved, 0, 0, nil
}

type decodedFact struct {
	Fact
	err error
}

// foldAll folds what the member has not folded yet.
func foldAll(m *member, v *View, facts []decodedFact) error {
	for _, f := range facts {
		if f.Position <= m.at || !m.Filter.Match(f.Stream) {
			continue
		}
		if f.err != nil {
			return &BrokenError{f.Position, f.err}
		}
		if err := fold(m.Projection, v, f.Fact); err != nil {
			return err
		}
	}
	return nil
}
