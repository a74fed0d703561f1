package analysis

// Processes are the ids of the processes that there are.
func (e *Engine) Processes() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []int
	for _, s := range e.sessions {
		if s.process != nil {
			out = append(out, s.process.cmd.Process.Pid)
		}
	}
	return out
}
