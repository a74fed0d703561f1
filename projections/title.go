package projections

import "refold/domain/event"

// TitleFrame is the frame that tells readers a session's new title. It belongs
// to the run whose end caused it and comes after the run's terminal frame. at is
// the position of the fact, request the request id of the run's message.
func TitleFrame(at event.Position, request, session, title string) Frame {
	return Frame{ID: FrameID(at, 0), Data: frameBody{ID: request, Type: "session_title", Content: title, Done: true,
		Data: map[string]any{"session_id": session, "title": title}}.encode()}
}
