//go:build !race

package e2e

// buildFlags make the binaries like the test itself.
var buildFlags []string
