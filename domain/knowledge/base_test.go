package knowledge_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/tests/scenario"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

var bases = scenario.Decider[knowledge.Base, knowledge.BaseCommand, knowledge.BaseEvent]{Decide: knowledge.DecideBase, Evolve: knowledge.EvolveBase}

func opened() knowledge.BaseCreated {
	return knowledge.BaseCreated{Base: "b1", Name: "Guides", Kind: knowledge.KindDocument, At: t0, Settings: knowledge.Settings{
		Chunking: knowledge.Chunking{Size: 512, Overlap: 80}, Strategy: knowledge.DefaultStrategy}}
}

func TestBase_Create(t *testing.T) {
	in := opened()
	in.Name, in.Kind, in.Settings = "  Gui\x00des ", "", knowledge.Settings{}
	bases.Given(t).When(knowledge.CreateBase{BaseCreated: in}).Then(func() knowledge.BaseEvent { e := opened(); e.Name = "Gui des"; return e }())
	bases.Given(t, opened()).When(knowledge.CreateBase{BaseCreated: in}).Refused(knowledge.ErrBaseExists)
	bases.Given(t, opened(), knowledge.BaseDeleted{}).When(knowledge.CreateBase{BaseCreated: in}).Refused(knowledge.ErrBaseExists)
}

func TestBase_RefusesWhatItCannotKeep(t *testing.T) {
	for name, change := range map[string]func(*knowledge.BaseCreated){
		"no name":         func(e *knowledge.BaseCreated) { e.Name = " \n" },
		"long name":       func(e *knowledge.BaseCreated) { e.Name = strings.Repeat("长", 129) },
		"type":            func(e *knowledge.BaseCreated) { e.Kind = "graph" },
		"description":     func(e *knowledge.BaseCreated) { e.Description = strings.Repeat("长", 4001) },
		"faq in document": func(e *knowledge.BaseCreated) { e.Settings.FAQ = &knowledge.FAQMode{} },
		"index mode": func(e *knowledge.BaseCreated) {
			e.Kind, e.Settings.FAQ = knowledge.KindFAQ, &knowledge.FAQMode{Index: "x"}
		},
		"overlap":    func(e *knowledge.BaseCreated) { e.Settings.Chunking = knowledge.Chunking{Size: 100, Overlap: 100} },
		"negative":   func(e *knowledge.BaseCreated) { e.Settings.Chunking.Size = -1 },
		"separators": func(e *knowledge.BaseCreated) { e.Settings.Chunking.Separators = make([]string, 17) },
		"no JSON": func(e *knowledge.BaseCreated) {
			e.Settings.Other = map[string]json.RawMessage{"wiki_config": json.RawMessage("{")}
		},
		"too much": func(e *knowledge.BaseCreated) {
			e.Settings.Other = map[string]json.RawMessage{"wiki_config": json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}
		},
		"tags of FAQ": func(e *knowledge.BaseCreated) {
			e.Kind = knowledge.KindFAQ
			e.Settings.Other = map[string]json.RawMessage{"auto_tag_config": json.RawMessage(`{"enabled":true}`)}
		},
	} {
		e := opened()
		change(&e)
		if got, err := knowledge.DecideBase(knowledge.Base{}, knowledge.CreateBase{BaseCreated: e}); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

// What clients set comes back as it was, but secrets are not on the record.
func TestBase_KeepsSettings(t *testing.T) {
	e := opened()
	e.Settings.Other = map[string]json.RawMessage{"wiki_config": json.RawMessage(`{"max_pages_per_ingest": 7}`), "vlm_config": json.RawMessage("null"),
		"storage_config": json.RawMessage(`{"bucket_name":"b","secret_key":"hunter2","list":[{"api_key":"sk-1"}]}`)}
	s := bases.Given(t).When(knowledge.CreateBase{BaseCreated: e}).Kinds("BaseCreated").State()
	want := map[string]json.RawMessage{"wiki_config": json.RawMessage(`{"max_pages_per_ingest": 7}`),
		"storage_config": json.RawMessage(`{"bucket_name":"b","list":[{"api_key":""}],"secret_key":""}`)}
	if !reflect.DeepEqual(s.Settings.Other, want) {
		t.Fatalf("%s", s.Settings.Other)
	}
}

func TestBase_ChangePinDelete(t *testing.T) {
	changed := knowledge.BaseChanged{Name: "New", Settings: opened().Settings, At: t0}
	c := bases.Given(t, opened()).When(knowledge.ChangeBase{BaseChanged: changed}).Then(changed)
	c.When(knowledge.ChangeBase{BaseChanged: changed}).Then()
	c.When(knowledge.PinBase{By: "u", Now: t0}).Then(knowledge.BasePinned{By: "u", At: t0})
	c.When(knowledge.PinBase{By: "v", Now: t0}).Then(knowledge.BasePinned{By: "v", At: t0})
	c.When(knowledge.PinBase{By: "u", Now: t0}).Then(knowledge.BaseUnpinned{By: "u", At: t0})
	if s := c.State(); len(s.Pins) != 1 || s.Pins["v"] != t0 {
		t.Fatal(s.Pins)
	}
	c.When(knowledge.RecordEmptied{}).Then()
	c.When(knowledge.DeleteBase{BaseDeleted: knowledge.BaseDeleted{At: t0}}).Kinds("BaseDeleted")
	for _, cmd := range []knowledge.BaseCommand{knowledge.ChangeBase{BaseChanged: changed}, knowledge.PinBase{}, knowledge.DeleteBase{}, knowledge.CreateTag{}} {
		c.When(cmd).Refused(knowledge.ErrNoBase)
	}
	c.When(knowledge.RecordEmptied{BaseEmptied: knowledge.BaseEmptied{Documents: 2, At: t0}}).Kinds("BaseEmptied")
	c.When(knowledge.RecordEmptied{BaseEmptied: knowledge.BaseEmptied{Documents: 2, At: t0}}).Then()
	c.When(knowledge.RecordEmptied{BaseEmptied: knowledge.BaseEmptied{Documents: 1, At: t0}, Again: true}).Kinds("BaseEmptied") // something came late
}

func TestTags(t *testing.T) {
	made := knowledge.TagCreated{Tag: "t1", Name: "News", Color: "#fff", Order: 2, At: t0}
	want := made
	want.Number = knowledge.NumberOf("t1")
	c := bases.Given(t, opened()).When(knowledge.CreateTag{TagCreated: made}).Then(want)
	made.Tag = "t2"
	for _, name := range []string{"news", " NEWS\t"} {
		made.Name = name
		c.When(knowledge.CreateTag{TagCreated: made}).Refused(knowledge.ErrTagExists)
	}
	for _, name := range []string{"", strings.Repeat("长", 129)} {
		made.Name = name
		if c.When(knowledge.CreateTag{TagCreated: made}).Err() == nil {
			t.Fatal("taken")
		}
	}
	made.Name = "Law"
	c.When(knowledge.CreateTag{TagCreated: made}).Kinds("TagCreated")
	c.When(knowledge.ChangeTag{TagChanged: knowledge.TagChanged{Tag: "t2", Name: "News"}}).Refused(knowledge.ErrTagExists)
	number, _ := c.State().Tag("t1")
	if number.Number < 1 || number.Number >= 1<<53 {
		t.Fatal(number)
	}
	if ids, err := c.State().TagIDs([]string{"t2", "t1", "t2"}); err != nil || !reflect.DeepEqual(ids, []string{"t1", "t2"}) {
		t.Fatal(ids, err)
	}
	if _, err := c.State().TagIDs([]string{"t3"}); err == nil {
		t.Fatal("an unknown tag was found")
	}
	c.When(knowledge.ChangeTag{TagChanged: knowledge.TagChanged{Tag: "t2", Name: "LAW", At: t0}}).Kinds("TagChanged")
	c.When(knowledge.DeleteTag{TagDeleted: knowledge.TagDeleted{Tag: "t1", At: t0}}).Kinds("TagDeleted")
	c.When(knowledge.DeleteTag{TagDeleted: knowledge.TagDeleted{Tag: "t1"}}).Refused(knowledge.ErrNoTag)
}

func TestWire(t *testing.T) {
	scenario.Fixtures(t, knowledge.Codec)
	scenario.Fixtures(t, knowledge.BaseCodec)
	scenario.Fixtures(t, knowledge.ImportCodec)
	scenario.Fixtures(t, knowledge.TransferCodec)
}

func TestEvolve_AnyOrder(t *testing.T) {
	for _, e := range []knowledge.Event{nil, knowledge.Parsed{}, knowledge.Indexed{}, knowledge.StageFailed{}, knowledge.ChunkEdited{}, knowledge.Synced{}} {
		s := knowledge.Evolve(knowledge.State{}, e)
		if s.Begun() {
			t.Fatal(e)
		}
		knowledge.Evolve(knowledge.Evolve(knowledge.State{}, file()), e)
	}
	for _, e := range []knowledge.BaseEvent{nil, knowledge.BaseUnpinned{}, knowledge.TagDeleted{}, knowledge.TagChanged{}, knowledge.BaseDeleted{}} {
		knowledge.EvolveBase(knowledge.Base{}, e)
	}
}
