package key

import "refold/domain/event"

// Codec pairs wire names and schema numbers with Go types and upcasters.
var Codec = event.NewCodec(
	event.Of[Event, KeyCreated]("KeyCreated", 1),
	event.Of[Event, KeyUpdated]("KeyUpdated", 1),
	event.Of[Event, KeyRevoked]("KeyRevoked", 1),
	event.Of[Event, KeyUsed]("KeyUsed", 1),
)
