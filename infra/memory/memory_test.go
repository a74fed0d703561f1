package memory_test

import (
	"testing"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/infra/memory"
	"refold/projections"
	"refold/tests/storetest"
)

var factory = storetest.Factory{Open: func(testing.TB) event.Store { return memory.New() }}

func TestStore(t *testing.T) { storetest.Run(t, factory) }

func TestStoreBytes(t *testing.T) { storetest.RunBytes(t, factory) }

func TestDocuments(t *testing.T) {
	storetest.RunDocuments(t, storetest.DocumentsFactory{Open: func(testing.TB) projections.Documents { return &memory.Documents{} }})
}

func TestBlobs(t *testing.T) {
	storetest.RunBlobs(t, storetest.BlobsFactory{Open: func(testing.TB) handlers.Blobs { return &memory.Blobs{} }})
}

func TestIndex(t *testing.T) {
	storetest.RunIndex(t, storetest.IndexFactory{Open: func(testing.TB) knowledge.Index { return &memory.Index{} }})
}
