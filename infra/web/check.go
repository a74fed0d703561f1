package web

import (
	"fmt"
	"net/url"
)

// Check refuses an address that Page and Fetch would refuse before they ask
// anybody. It is one whose host is no public address, or whose port is none that
// pages are served on, unless an operator opened it; what a name leads to is found
// out later. The error is for people.
func (c *Client) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("this is no address: %w", err)
	}
	return c.guard.check(u)
}
