package sqlite

// full is not known here: the driver's own word has to do.
func full(string) bool { return false }
