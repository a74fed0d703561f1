package projections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// Content identifies the documents of a projection: equal content, equal sum.
type Content struct {
	Documents int
	Sum       string // hex sha256
}

// Digest reads every document of a projection for some tenants, with its index,
// in order of tenant, collection and id.
func Digest(ctx context.Context, d Documents, p Projection, tenants ...string) (Content, error) {
	h := sha256.New()
	var c Content
	for _, tenant := range tenants {
		for _, kind := range []string{"", StepCollection, turnsCollection, UsageByRun, UsageBySession, heldCollection, attachedCollection, importsCollection, AskedCollection, OwingCollection, FolderCollection, countedCollection} {
			collection := p.ID()
			if kind != "" {
				collection += "." + kind
			}
			if err := c.read(ctx, d, h, collection, tenant); err != nil {
				return c, fmt.Errorf("read %s: %w", collection, err)
			}
		}
	}
	c.Sum = hex.EncodeToString(h.Sum(nil))
	return c, nil
}

func (c *Content) read(ctx context.Context, d Documents, h io.Writer, collection, tenant string) error {
	for cursor := ""; ; {
		page, err := d.Find(ctx, Query{Collection: collection, Tenant: tenant, Limit: 1000, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, doc := range page.Documents {
			c.Documents++
			index, err := json.Marshal(doc.Index)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %s\n%s\n%s\n%s\n", tenant, doc.Collection, doc.ID, doc.Body, index)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
