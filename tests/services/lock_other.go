//go:build !unix

package services

import "errors"

func lockFile(string) (unlock func(), err error) {
	return nil, errors.New("servers are started on Unix only; name one in REFOLD_TEST_PG<version>")
}
