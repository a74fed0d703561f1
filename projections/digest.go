package projections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Content identifies the documents of a projection: equal content, equal sum.
type Content struct {
	Documents int
	Sum       string // hex sha256
}

// Digest reads every document of a projection for a tenant, with its index, in
// order of collection and id.
func Digest(ctx context.Context, d Documents, p Projection, tenant string) (Content, error) {
	h := sha256.New()
	var c Content
	for _, collection := range []string{p.ID(), p.ID() + "." + StepCollection, p.ID() + "." + turnsCollection} {
		cursor := ""
		for {
			page, err := d.Find(ctx, Query{Collection: collection, Tenant: tenant, Limit: 1000, Cursor: cursor})
			if err != nil {
				return c, fmt.Errorf("read %s: %w", collection, err)
			}
			for _, doc := range page.Documents {
				c.Documents++
				index, err := json.Marshal(doc.Index)
				if err != nil {
					return c, err
				}
				fmt.Fprintf(h, "%s\n%s\n%s\n%s\n", doc.Collection, doc.ID, doc.Body, index)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	c.Sum = hex.EncodeToString(h.Sum(nil))
	return c, nil
}
