package app

import (
	"context"
	"fmt"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
	"refold/infra/handbook"
)

// sample makes the knowledge base that a fresh record begins with.
func (a *App) sample(ctx context.Context) error {
	by := commands.Caller{Tenant: domain.DefaultTenant, Principal: "process:" + a.Runner.Self}
	base, _, err := a.Commands.CreateBase(ctx, by, commands.NewBase{Name: handbook.Name, Description: handbook.Description})
	if err != nil {
		return fmt.Errorf("make the sample knowledge base: %w", err)
	}
	for _, f := range handbook.Files() {
		digest, err := a.DB.Blobs().Put(ctx, by.Tenant, f.Content)
		if err == nil {
			_, err = a.Commands.AddDocument(ctx, by, commands.AddDocument{Base: base, Origin: knowledge.OriginFile, FileName: f.Name, Channel: "sample",
				Content: knowledge.Blob{Digest: digest, Size: int64(len(f.Content))}})
		}
		if err != nil {
			return fmt.Errorf("put %s into the sample knowledge base: %w", f.Name, err)
		}
	}
	return nil
}
