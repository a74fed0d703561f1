package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
	"refold/domain/request"
	"refold/infra/handbook"
)

// sample makes the knowledge base that a fresh record begins with, or puts into it
// what a crash has kept out of it; a record that began without it stays without.
// Its id follows from the handbook, so that the one of an earlier build is left
// alone, and so is what a person has deleted.
func (a *App) sample(ctx context.Context, fresh bool) error {
	var all strings.Builder
	files := handbook.Files()
	for _, f := range files {
		all.WriteString(f.Name + knowledge.Digest(string(f.Content)))
	}
	by := commands.Caller{Tenant: domain.DefaultTenant, Principal: "process:" + a.Runner.Self, Reservation: "sample:" + knowledge.Digest(all.String())}
	base := request.DerivedID(by.Reservation, "knowledge_base")
	if fresh {
		made, _, err := a.Commands.CreateBase(ctx, by, commands.NewBase{Name: handbook.Name, Description: handbook.Description})
		if err != nil {
			return fmt.Errorf("make the sample knowledge base: %w", err)
		}
		base = made
	}
	by.Reservation = ""
	if b, _, err := a.Commands.LookBase(ctx, by.Tenant, base); err != nil || !b.Live() {
		return err
	}
	for _, f := range files {
		d, err := a.Commands.OpenDocument(ctx, by.Tenant, knowledge.FileID(base, knowledge.Digest(string(f.Content)), f.Name, 0))
		if err == nil && !d.State.Begun() {
			err = a.addSample(ctx, by, base, f)
		}
		if err != nil {
			return fmt.Errorf("put %s into the sample knowledge base: %w", f.Name, err)
		}
	}
	return nil
}

func (a *App) addSample(ctx context.Context, by commands.Caller, base string, f handbook.File) error {
	digest, err := a.DB.Blobs().Put(ctx, by.Tenant, f.Content)
	if err != nil {
		return err
	}
	_, err = a.Commands.AddDocument(ctx, by, commands.AddDocument{Base: base, Origin: knowledge.OriginFile, FileName: f.Name, Channel: "sample",
		Content: knowledge.Blob{Digest: digest, Size: int64(len(f.Content))}})
	if errors.Is(err, knowledge.ErrDuplicateFile) { // another process was faster
		err = nil
	}
	return err
}
