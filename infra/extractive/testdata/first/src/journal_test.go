package src

// TestRestore: how is a backup restored? How does an order survive a power cut?
func restore() { ask("How is a backup restored?") }

func ask(string) {}
