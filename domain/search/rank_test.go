package search

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestFuse(t *testing.T) {
	got := Fuse([]float64{VectorWeight, KeywordWeight}, VectorWeight+KeywordWeight, []string{"a", "b", "c"}, []string{"b", "d", "a", "b"})
	var order []string
	for _, f := range got {
		order = append(order, f.ID)
	}
	if strings.Join(order, " ") != "a b c d" {
		t.Errorf("order %v", order)
	}
	if want := (0.7/61 + 0.3/63) * 61; !near(got[0].Score, want) || !reflect.DeepEqual(got[0].Place, []int{0, 2}) {
		t.Errorf("a is %+v, want %v", got[0], want)
	}
	if want := (0.7/62 + 0.3/61) * 61; !near(got[1].Score, want) || !reflect.DeepEqual(got[1].Place, []int{1, 0}) {
		t.Errorf("b is %+v, want %v", got[1], want)
	}
	if !reflect.DeepEqual(got[3].Place, []int{-1, 1}) {
		t.Errorf("d is %+v", got[3])
	}
	if first := Fuse([]float64{0.3}, 0.3, []string{"x"})[0]; first.Score != 1 {
		t.Errorf("the first of the only list has %v", first.Score)
	}
	if many := Fuse([]float64{1, 1, 1}, 1, []string{"x"}, []string{"x"}, []string{"x"})[0]; many.Score != 1 {
		t.Errorf("more than the best is %v", many.Score)
	}
	if len(Fuse(nil, 1)) != 0 {
		t.Error("nothing gives something")
	}
}

func TestPassing(t *testing.T) {
	for _, c := range []struct {
		scores    []float64
		threshold float64
		pinned    bool
		want      []int
	}{
		{[]float64{0.2, 0.9, 0.3}, 0, false, []int{1, 2}},
		{[]float64{0.2, 0.9, 0.3}, 0.5, false, []int{1}},
		{[]float64{0.2, 0.4, 0.3}, 0.9, false, []int{1}}, // 0.9, 0.63, 0.441, 0.3087
		{[]float64{0.2, 0.29, 0.1}, 0.9, false, []int{1}},
		{[]float64{0.2, 0.29, 0.1}, 0.1, false, []int{0, 1, 2}},
		{[]float64{0.05, 0.15}, 0, false, []int{1}},
		{[]float64{0.05, 0.149}, 0, false, nil},
		{[]float64{0.05, 0.149}, 0, true, []int{1}},
		{[]float64{0, 0}, 0, true, []int{0}},
		{nil, 0, true, nil},
		{[]float64{0.5}, math.NaN(), false, []int{0}},
	} {
		if got := Passing(c.scores, c.threshold, c.pinned); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v at %v, pinned %v: %v, want %v", c.scores, c.threshold, c.pinned, got, c.want)
		}
	}
}

func TestComposite(t *testing.T) {
	for _, c := range []struct {
		model, base, source float64
		start               int
		want                float64
	}{
		{0.5, 0.5, 1, 4000, 0.55}, {0.5, 0.5, 1, 0, 0.55 * 1.05}, {0.5, 0.5, 1, 1 << 40, 0.55 * 0.95}, {0.5, 0.5, WebSource, 4000, 0.545},
		{1, 1, 1, 0, 1}, {0, 0, 0, 0, 0}, {-5, 9, 1, 4000, 0.4}, {math.NaN(), 0, 1, 4000, 0.1}, {0.5, 0.5, 1, -7, 0.55 * 1.05},
	} {
		if got := Composite(c.model, c.base, c.source, c.start); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestMMR(t *testing.T) {
	texts := []Set{SetOf("red apples and pears"), SetOf("red apples and pears too"), SetOf("blue whales"), SetOf("green grass")}
	if got := MMR([]float64{0.9, 0.89, 0.7, 0.6}, texts, 3); !reflect.DeepEqual(got, []int{0, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := MMR([]float64{0.9, 0.89, 0.1, 0.1}, texts, 2); !reflect.DeepEqual(got, []int{0, 1}) {
		t.Errorf("relevance counts more: %v", got)
	}
	if got := MMR([]float64{0.1, 0.2}, texts[:2], 9); !reflect.DeepEqual(got, []int{1, 0}) {
		t.Errorf("all of them: %v", got)
	}
	if got := MMR(nil, nil, 3); len(got) != 0 {
		t.Errorf("nothing: %v", got)
	}
}

func TestDistinct(t *testing.T) {
	got := Distinct([]string{"a1", "b1", "a2", "", "c3", ""}, func(s string) []string {
		if s == "" {
			return []string{""}
		}
		return []string{"letter" + s[:1], "digit" + s[1:]}
	})
	if !reflect.DeepEqual(got, []string{"a1", "", "c3", ""}) {
		t.Errorf("got %q", got)
	}
	if Signature("Hello, WORLD １２!") != Signature("hello world 12") || Signature("a") == Signature("b") || Signature("年假。") != Signature("年 假") {
		t.Error("signatures")
	}
}

func TestSets(t *testing.T) {
	a, b := SetOf("one two three four"), SetOf("three four five")
	if got := a.Jaccard(b); !near(got, 0.4) {
		t.Errorf("Jaccard %v", got)
	}
	if got := a.Overlap(b); !near(got, 2.0/3) {
		t.Errorf("overlap %v", got)
	}
	if a.Jaccard(nil) != 0 || SetOf("").Overlap(SetOf("")) != 0 {
		t.Error("empty sets have something in common")
	}
}
