package knowledge

import "refold/domain/event"

// BaseCodec pairs wire names and schema numbers of the facts of bases with Go
// types and upcasters.
var BaseCodec = event.NewCodec(
	event.Of[BaseEvent, BaseCreated]("BaseCreated", 1),
	event.Of[BaseEvent, BaseChanged]("BaseChanged", 1),
	event.Of[BaseEvent, BasePinned]("BasePinned", 1),
	event.Of[BaseEvent, BaseUnpinned]("BaseUnpinned", 1),
	event.Of[BaseEvent, BaseDeleted]("BaseDeleted", 1),
	event.Of[BaseEvent, BaseEmptied]("BaseEmptied", 1),
	event.Of[BaseEvent, TagCreated]("TagCreated", 1),
	event.Of[BaseEvent, TagChanged]("TagChanged", 1),
	event.Of[BaseEvent, TagDeleted]("TagDeleted", 1),
)

// Codec is that of the facts of documents.
var Codec = event.NewCodec(
	event.Of[Event, DocumentAdded]("DocumentAdded", 1),
	event.Of[Event, DocumentChanged]("DocumentChanged", 1),
	event.Of[Event, DocumentTagged]("DocumentTagged", 1),
	event.Of[Event, ContentReplaced]("ContentReplaced", 1),
	event.Of[Event, ReparseRequested]("ReparseRequested", 1),
	event.Of[Event, StageStarted]("StageStarted", 1),
	event.Of[Event, Fetched]("Fetched", 1),
	event.Of[Event, Parsed]("Parsed", 1),
	event.Of[Event, Chunked]("Chunked", 1),
	event.Of[Event, Embedded]("Embedded", 1),
	event.Of[Event, Indexed]("Indexed", 1),
	event.Of[Event, Synced]("Synced", 1),
	event.Of[Event, StageFailed]("StageFailed", 1),
	event.Of[Event, IngestionCancelled]("IngestionCancelled", 1),
	event.Of[Event, ChunkEdited]("ChunkEdited", 1),
	event.Of[Event, DocumentDeleted]("DocumentDeleted", 1),
	event.Of[Event, DocumentRemoved]("DocumentRemoved", 1),
)
