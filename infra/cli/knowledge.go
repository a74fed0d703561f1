package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// KB makes, lists and deletes knowledge bases.
type KB struct {
	List   KBList   `cmd:"" default:"withargs" help:"List the knowledge bases."`
	Create KBCreate `cmd:"" help:"Make a knowledge base."`
	Delete KBDelete `cmd:"" help:"Delete a knowledge base with all that it holds."`
}

// Help gives examples.
func (KB) Help() string {
	return `A knowledge base holds documents to answer from, or (--type faq) questions with
their answers. Commands take its name or its id.

Examples:
  refold kb create Handbook
  refold doc add ./docs --kb Handbook --wait
  refold ask --kb Handbook "How do I restore a backup?"`
}

// kbRow is a knowledge base as the server shows it.
type kbRow struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Description  string          `json:"description"`
	Documents    int             `json:"knowledge_count"`
	Chunks       int             `json:"chunk_count"`
	Processing   int             `json:"processing_count"`
	Capabilities map[string]bool `json:"capabilities"`
	CreatedAt    time.Time       `json:"created_at"`
}

func (e *env) base(b kbRow) {
	if e.cli.JSON {
		e.line(b)
		return
	}
	by := "words"
	if b.Capabilities["vector"] {
		by = "words and vectors"
	}
	holds := counted(b.Documents, "document", "documents")
	if b.Type == "faq" {
		holds = counted(b.Documents, "entry", "entries")
	}
	fmt.Fprintf(e.out, "%s  %s\n  %s, %s, found by %s", b.ID, plainText(b.Name), holds, counted(b.Chunks, "piece", "pieces"), by)
	if b.Processing > 0 {
		fmt.Fprintf(e.out, "; %d on their way", b.Processing)
	}
	fmt.Fprintln(e.out)
}

func (e *env) bases(c *client) ([]kbRow, error) {
	var rows []kbRow
	return rows, c.call(e.ctx, http.MethodGet, "/api/v1/knowledge-bases", nil, &rows)
}

var idForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// findBase gives the knowledge base with a name, or an id. Names may be given
// twice; then the id says which.
func (e *env) findBase(c *client, name string) (kbRow, error) {
	rows, err := e.bases(c)
	if err != nil {
		return kbRow{}, err
	}
	var found []kbRow
	for _, b := range rows {
		if b.ID == name && idForm.MatchString(name) {
			return b, nil
		}
		if strings.EqualFold(b.Name, name) {
			found = append(found, b)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return kbRow{}, fmt.Errorf("there is no knowledge base %q; see: refold kb, or make it: refold kb create %q", name, name)
	}
	ids := make([]string, len(found))
	for i, b := range found {
		ids[i] = b.ID
	}
	return kbRow{}, fmt.Errorf("%d knowledge bases are called %q; name one by its id: %s", len(found), name, strings.Join(ids, ", "))
}

// KBList lists knowledge bases.
type KBList struct{}

// Help gives examples.
func (KBList) Help() string {
	return `Examples:
  refold kb
  refold kb list --json | jq -r '.name + " " + .id'`
}

// Run lists them.
func (KBList) Run(e *env) error {
	return e.withClient(func(c *client) error {
		rows, err := e.bases(c)
		if err != nil {
			return err
		}
		for _, b := range rows {
			e.base(b)
		}
		if len(rows) == 0 && !e.cli.JSON {
			fmt.Fprintln(e.err, "There are no knowledge bases. Make one with: refold kb create NAME")
		}
		return nil
	})
}

// KBCreate makes a knowledge base.
type KBCreate struct {
	Name        string `arg:"" help:"What it is called."`
	Type        string `help:"document: files, addresses and texts; faq: questions with answers." enum:"document,faq" default:"document"`
	Description string `help:"What it is about." placeholder:"TEXT"`
	ChunkSize   int    `help:"Tokens of a piece; 0 = 512." placeholder:"N"`
	Embedding   string `help:"Embedding model by its configured name; empty = the default one." placeholder:"NAME"`
	Force       bool   `help:"Make it although there is one of this name."`
}

// Help gives examples.
func (KBCreate) Help() string {
	return `Exit codes: 0 it is made, 1 there is one of this name already; its id is said.

Examples:
  refold kb create Handbook --description "How we work"
  refold kb create Questions --type faq
  refold kb create Notes --chunk-size 256 --json | jq -r .id`
}

// Run makes it.
func (k KBCreate) Run(e *env) error {
	body := map[string]any{"name": k.Name, "type": k.Type, "description": k.Description, "embedding_model_id": k.Embedding}
	if k.ChunkSize != 0 {
		body["chunking_config"] = map[string]any{"chunk_size": k.ChunkSize, "chunk_overlap": k.ChunkSize / 8}
	}
	return e.withClient(func(c *client) error {
		if !k.Force {
			rows, err := e.bases(c)
			if err != nil {
				return err
			}
			for _, b := range rows {
				if strings.EqualFold(b.Name, strings.TrimSpace(k.Name)) {
					return fmt.Errorf("there is a knowledge base %q already, its id is %s; add to it, choose another name, or make a second one: refold kb create %q --force", b.Name, b.ID, k.Name)
				}
			}
		}
		var made kbRow
		if err := c.call(e.ctx, http.MethodPost, "/api/v1/knowledge-bases", body, &made); err != nil {
			return err
		}
		e.base(made)
		return nil
	})
}

// KBDelete deletes a knowledge base.
type KBDelete struct {
	Name string `arg:"" help:"Name or id of the knowledge base."`
	Yes  bool   `help:"Delete it although it holds something."`
}

// Help gives examples.
func (KBDelete) Help() string {
	return `What it holds is deleted with it. One that is not empty is deleted with --yes only.

Examples:
  refold kb delete Drafts
  refold kb delete Handbook --yes`
}

// Run deletes it.
func (k KBDelete) Run(e *env) error {
	return e.withClient(func(c *client) error {
		b, err := e.findBase(c, k.Name)
		if err != nil {
			return err
		}
		if b.Documents > 0 && !k.Yes {
			return usage("%q holds %s; to delete them too, say so: refold kb delete %q --yes", b.Name, counted(b.Documents, "document", "documents"), k.Name)
		}
		if err := c.call(e.ctx, http.MethodDelete, "/api/v1/knowledge-bases/"+url.PathEscape(b.ID), nil, nil); err != nil {
			return err
		}
		if e.cli.JSON {
			e.line(map[string]any{"id": b.ID, "name": b.Name, "deleted": true})
		} else {
			fmt.Fprintf(e.out, "%s is deleted.\n", plainText(b.Name))
		}
		return nil
	})
}

// Search finds passages.
type Search struct {
	Words []string `arg:"" help:"What to look for."`
	KB    []string `help:"Knowledge base, by name or id; repeatable; all of them unless named." placeholder:"NAME" name:"kb"`
	Limit int      `help:"Passages at most." default:"10" placeholder:"N"`
}

// Help gives examples.
func (Search) Help() string {
	return `Examples:
  refold search "restore a backup"
  refold search 退款 --kb Handbook --limit 3
  refold search refunds --json | jq -r .content`
}

// hitRow is a passage as the server shows it.
type hitRow struct {
	ID       string  `json:"id"`
	Content  string  `json:"content"`
	Document string  `json:"knowledge_id"`
	Title    string  `json:"knowledge_title"`
	FileName string  `json:"knowledge_filename"`
	Base     string  `json:"knowledge_base_id"`
	Index    int     `json:"chunk_index"`
	Score    float64 `json:"score"`
	Match    int     `json:"match_type"`
}

// Run searches.
func (s Search) Run(e *env) error {
	query := strings.TrimSpace(strings.Join(s.Words, " "))
	if query == "" {
		return usage("there is nothing to look for")
	}
	if s.Limit < 1 || s.Limit > 200 {
		return usage("--limit is from 1 to 200")
	}
	return e.withClient(func(c *client) error {
		rows, err := e.bases(c)
		if err != nil {
			return err
		}
		if len(s.KB) > 0 {
			rows = rows[:0:0]
			for _, name := range s.KB {
				b, err := e.findBase(c, name)
				if err != nil {
					return err
				}
				rows = append(rows, b)
			}
		}
		if len(rows) == 0 {
			return fmt.Errorf("there are no knowledge bases to search; make one with: refold kb create NAME")
		}
		names, ids := map[string]string{}, make([]string, len(rows))
		for i, b := range rows {
			ids[i], names[b.ID] = b.ID, b.Name
		}
		if len(ids) > maxSearched {
			return usage("there are %d knowledge bases; name those to search with --kb, at most %d", len(ids), maxSearched)
		}
		var hits []hitRow
		body := map[string]any{"query_text": query, "match_count": s.Limit, "knowledge_base_ids": ids}
		notes, err := c.noted(e.ctx, http.MethodPost, "/api/v1/knowledge-bases/"+url.PathEscape(ids[0])+"/hybrid-search", body, &hits)
		if err != nil {
			return err
		}
		for _, h := range hits {
			if e.cli.JSON {
				e.line(h)
				continue
			}
			fmt.Fprintf(e.out, "%s: %s (piece %d, score %.3g)\n", plainText(names[h.Base]), plainText(h.Title), h.Index+1, h.Score)
			for _, line := range strings.Split(excerpt(h.Content), "\n") {
				fmt.Fprintf(e.out, "  %s\n", plainText(line))
			}
		}
		if len(hits) == 0 && !e.cli.JSON {
			fmt.Fprintln(e.err, "Nothing was found.")
		}
		for _, n := range notes {
			fmt.Fprintln(e.err, "Note: "+plainText(n))
		}
		return nil
	})
}

// maxSearched is how many knowledge bases one search asks.
const maxSearched = 100

// excerpt is the beginning of a passage.
func excerpt(text string) string {
	const most = 400
	text = strings.TrimSpace(text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}
