package run

// decideStop ends the run now: a fence after which no claim is granted. What
// was shown is kept, open calls are closed in the same append.
func decideStop(s State, c Stop) ([]Event, error) {
	if s.Over() {
		return nil, ErrOver
	}
	reason := c.Reason
	if reason == "" {
		reason = "user_requested"
	}
	stop := RunStopped{By: c.By, Reason: reason, Usage: s.Usage, Rounds: s.rounds(), DurationMS: s.elapsed(c.Now), At: c.Now}
	if s.Model != nil && s.Model.Call == c.Call {
		stop.Call, stop.Text, stop.Reasoning, stop.Shown = c.Call, c.Text, c.Reasoning, c.Shown
	} else if s.Model != nil {
		stop.Call = s.Model.Call
	}
	return append(s.closeOpen("", c.By, c.Now), stop), nil
}
