package knowledge

import (
	"slices"
	"time"
)

// The stages of a document. The first five lead into the index; sync tells the
// index what has changed beside the content, remove makes it forget.
const (
	StageFetch  = "fetch"
	StageParse  = "parse"
	StageChunk  = "chunk"
	StageEmbed  = "embed"
	StageIndex  = "index"
	StageSync   = "sync"
	StageRemove = "remove"
)

// Stages are those that lead a document of an origin into the index.
func Stages(o Origin) []string {
	all := []string{StageFetch, StageParse, StageChunk, StageEmbed, StageIndex}
	switch o {
	case OriginURL, OriginFileURL:
		return all
	case OriginFile:
		return all[1:]
	case OriginManual:
		return all[2:]
	}
	return all[3:]
}

// How stages are tried again.
const (
	MaxAttempts = 3  // that fail and have not moved
	MaxLost     = 10 // whose process died, one after another
	lostAtOnce  = 3  // lost attempts that are repeated without a pause
	maxRetry    = 10 * time.Minute
)

// retryWait is the pause before the attempt after n that failed. What the other
// side asks for counts, if it is not too long.
func retryWait(n int, asked time.Duration) time.Duration {
	wait := 2 * time.Second
	for range n - 1 {
		wait *= 5
	}
	return min(max(min(wait, time.Minute), asked), maxRetry)
}

// ClaimTime is how long a stage may take.
func ClaimTime(stage string) time.Duration {
	switch stage {
	case StageFetch:
		return 3 * time.Minute
	case StageEmbed:
		return 2 * time.Hour
	case StageIndex:
		return time.Hour
	}
	return 15 * time.Minute
}

// upkeep tells whether a stage is none of the way into the index.
func upkeep(stage string) bool { return stage == StageSync || stage == StageRemove }

// ProgressAt is how far a document is, in percent, when a stage begins.
func ProgressAt(o Origin, stage string) int {
	weights := map[string]int{StageFetch: 10, StageParse: 30, StageChunk: 10, StageEmbed: 40, StageIndex: 10}
	total, before := 0, 0
	for _, st := range Stages(o) {
		if st == stage {
			before = total
		}
		total += weights[st]
	}
	if total == 0 {
		return 0
	}
	return before * 100 / total
}

// Stage is the stage that the revision is at, "" if it is in the index.
func (s State) Stage() string {
	if s.Added == nil || s.Revision > 0 && s.Indexed == s.Revision {
		return ""
	}
	stages := Stages(s.Added.Origin)
	switch {
	case slices.Contains(stages, StageFetch) && !s.fetched:
		return StageFetch
	case slices.Contains(stages, StageParse) && s.Parsed == nil:
		return StageParse
	case slices.Contains(stages, StageChunk) && s.Chunked == nil:
		return StageChunk
	case s.Embedded == nil:
		return StageEmbed
	}
	return StageIndex
}

// lane gives the counts of the kind of work that a stage is.
func (s *State) lane(stage string) *lane {
	if upkeep(stage) {
		return &s.upkeep
	}
	return &s.ingest
}

// attempt is the number of the next claim of a stage.
func (s State) attempt(stage string) int {
	l := s.lane(stage)
	if l.stage != stage {
		return 1
	}
	return l.tries + 1
}
