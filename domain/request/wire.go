package request

import "refold/domain/event"

// Codec pairs wire names and schema numbers with Go types and upcasters.
var Codec = event.NewCodec(
	event.Of[Event, RequestReserved]("RequestReserved", 1),
	event.Of[Event, RequestAnswered]("RequestAnswered", 1),
	event.Of[Event, RequestReleased]("RequestReleased", 1),
)
