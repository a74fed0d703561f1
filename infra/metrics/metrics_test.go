package metrics

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"refold/domain/tool"
	"refold/handlers"
)

type box struct{}

func (box) Hash(name string) string { return strings.TrimPrefix(name, "unknown") }
func (box) Invoke(context.Context, string, tool.Call, int) handlers.ToolOutcome {
	return handlers.ToolOutcome{Abandoned: true}
}
func (box) CleanRun(context.Context, string) {}

type talker struct{ err error }

func (talker) Name() string { return "t" }
func (m talker) Chat(_ context.Context, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	return handlers.ModelReply{}, errors.Join(emit(handlers.ModelDelta{Content: "x"}), m.err)
}

// value gives the number of a metric with label values in the order of their
// names, and how many series the metric has.
func value(t *testing.T, s *Set, name string, labels ...string) (float64, int) {
	t.Helper()
	families, err := s.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		v := -1.0
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetValue())
			}
			if strings.Join(got, " ") == strings.Join(labels, " ") {
				v = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
		return v, len(f.GetMetric())
	}
	return -1, 0
}

// The HELP of each metric of ours says when it is a bad sign, and what of.
func TestHelp(t *testing.T) {
	s := New(nil)
	s.Watch(Sources{})
	descriptions := make(chan *prometheus.Desc)
	go func() {
		s.registry.Describe(descriptions)
		close(descriptions)
	}()
	n := 0
	for d := range descriptions {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, rest, _ := strings.Cut(rest, `", help: `)
		help, _, _ := strings.Cut(rest, `, constLabels`)
		if !strings.HasPrefix(name, "refold_") {
			continue
		}
		if n++; !regexp.MustCompile(`(?i)(high|rises|rising|more than|not 0|for long|slow|_limited|failed|5xx)[^.]*: [^.]+`).MatchString(help) {
			t.Errorf("%s: %s", name, help)
		}
	}
	if n < 20 {
		t.Errorf("%d metrics", n)
	}
}

// Names that people and models choose make no more series than that.
func TestCardinality(t *testing.T) {
	s := New(nil)
	tools := s.Tools(box{})
	for i := range 10 * maxNames {
		tools.Invoke(t.Context(), fmt.Sprint("tool", i), tool.Call{}, 0)
		tools.Invoke(t.Context(), "unknown", tool.Call{}, 0)
		s.Request("M"+fmt.Sprint(i), "", 405, 0, false)
		_, _ = s.Model(fmt.Sprint("model", i), talker{}).Chat(t.Context(), handlers.ModelRequest{}, func(handlers.ModelDelta) error { return nil })
	}
	for name, want := range map[string]int{"refold_tool_calls_total": maxNames + 1, "refold_model_calls_total": maxNames + 1, "refold_http_requests_total": 1} {
		if _, n := value(t, s, name); n != want {
			t.Errorf("%s has %d series, want %d", name, n, want)
		}
	}
	if v, _ := value(t, s, "refold_tool_calls_total", "abandoned", Other); v != 19*maxNames {
		t.Error(v)
	}
}

// Outcomes of model calls, and times by the set's clock.
func TestModel(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(func() time.Time { now = now.Add(time.Second); return now })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for _, c := range []struct {
		ctx     context.Context
		err     error
		outcome string
	}{
		{t.Context(), nil, "ok"}, {t.Context(), &handlers.ModelError{Code: "rate_limited"}, "rate_limited"}, {t.Context(), errors.New("x"), "error"},
		{gone, context.Canceled, "canceled"}, {late, context.DeadlineExceeded, "timeout"},
	} {
		_, _ = s.Model("m", talker{c.err}).Chat(c.ctx, handlers.ModelRequest{}, func(handlers.ModelDelta) error { return nil })
		if v, _ := value(t, s, "refold_model_calls_total", "m", c.outcome); v != 1 {
			t.Errorf("%s: %v", c.outcome, v)
		}
	}
	if v, _ := value(t, s, "refold_model_call_seconds", "m"); v != 2 { // begin, first delta, end
		t.Error(v)
	}
	if v, _ := value(t, s, "refold_model_first_delta_seconds", "m"); v != 5 {
		t.Error(v)
	}
}
