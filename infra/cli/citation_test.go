package cli

import "testing"

func TestCited(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain",
		`Ten days.<kb doc="Leave &amp; travel" chunk_id="c" kb_id="b" /> Yes`: "Ten days.[Leave & travel] Yes",
		`See <web url="https://x.org/?a=1&amp;b=2" title="T" />.`:             "See [https://x.org/?a=1&b=2].",
		`<kb> and 1 < 2`: "<kb> and 1 < 2",
	} {
		if got := cited(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
