package extractive

import (
	"path"
	"regexp"
	"strings"
)

// kind says how a file is cut and what its sentences are worth as an answer:
// prose is written for readers, code is not, least of all that of tests.
type kind struct {
	code    bool
	test    bool
	comment *regexp.Regexp // what begins a line of comment, in code
	factor  float64        // for prose, and for comments of code
}

// worth of a line of code, relative to a comment beside it: one that says
// something to people is worth more.
func worth(code string) float64 {
	if message.MatchString(code) {
		return 0.8
	}
	return 0.5
}

var (
	// proseGlob is proseNames for the search tool.
	proseGlob = "{*.{md,mdx,markdown,txt,rst,adoc,org,tex,html,htm,MD,TXT},README*,LICENSE*,NOTICE*}"

	message = regexp.MustCompile(`["'](?:[^\s"']+\s+){3,}[^"']*["']`) // four words and more

	slashComment = regexp.MustCompile(`^\s*(?:///?|/\*\*?|\*/?)\s?`)
	hashComment  = regexp.MustCompile(`^\s*(?:#+|--+|;+)\s?`)
	samplePath   = regexp.MustCompile(`(?i)(?:^|/)(?:testdata|fixtures?|mocks?|vendor|third_party)/`)
	testPath     = regexp.MustCompile(`(?i)(?:^|/)(?:tests?|specs?|golden)/|[_.-](?:test|spec|golden)\.|\.golden$|(?:^|/)test_`)
	minorPath    = regexp.MustCompile(`(?i)(?:^|/)(?:license|licence|notice|copying|changelog|changes|history)[^/]*$`)
)

func kindOf(name string) kind {
	k := kind{factor: 1}
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc", ".org", ".tex", ".html", ".htm", "":
	case ".csv", ".tsv", ".log":
		k.factor = 0.8
	case ".py", ".rb", ".sh", ".yaml", ".yml", ".toml", ".ini", ".conf", ".mk", ".sql", ".lua", ".r", ".pl", ".env", ".tf":
		k.code, k.comment, k.factor = true, hashComment, 0.6
	default:
		k.code, k.comment, k.factor = true, slashComment, 0.6
	}
	switch base := path.Base(name); {
	case base == "Makefile" || base == "Dockerfile":
		k.code, k.comment, k.factor = true, hashComment, 0.6
	case minorPath.MatchString(name):
		k.factor *= 0.4
	}
	switch {
	case samplePath.MatchString(name):
		k.test = true
		k.factor *= 0.3
	case testPath.MatchString(name):
		k.test = true
		k.factor *= 0.6
	}
	return k
}
