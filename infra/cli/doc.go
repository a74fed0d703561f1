package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Doc adds, lists, shows and deletes documents of knowledge bases.
type Doc struct {
	Add    DocAdd    `cmd:"" help:"Add files, folders and addresses to a knowledge base."`
	List   DocList   `cmd:"" help:"List the documents of a knowledge base."`
	Show   DocShow   `cmd:"" help:"Show a document: how far it is, and what went wrong."`
	Delete DocDelete `cmd:"" help:"Delete documents."`
}

// Help gives examples.
func (Doc) Help() string {
	return `Documents are read, cut into pieces and indexed in the background.

Examples:
  refold doc add ./docs --kb Handbook --wait
  refold doc list --kb Handbook --status failed
  refold doc show 0b5f6d0e-2c1a-4f0e-9d7b-1f2e3d4c5b6a`
}

// docRow is a document as the server shows it.
type docRow struct {
	ID        string    `json:"id"`
	Base      string    `json:"knowledge_base_id"`
	BaseName  string    `json:"knowledge_base_name"`
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	FileName  string    `json:"file_name"`
	Folder    string    `json:"folder_path"`
	Source    string    `json:"source"`
	Status    string    `json:"parse_status"`
	Enabled   string    `json:"enable_status"`
	Progress  int       `json:"progress"`
	Stage     string    `json:"stage,omitempty"`
	Error     string    `json:"error_message"`
	ErrorCode string    `json:"error_code,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
	Size      int64     `json:"file_size"`
	Chunks    int       `json:"chunk_count"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// settled tells whether nothing more is done for it.
func (d docRow) settled() bool {
	switch d.Status {
	case "completed", "failed", "cancelled", "draft":
		return true
	}
	return false
}

// name is where it comes from.
func (d docRow) name() string {
	switch {
	case d.Source != "":
		return d.Source
	case d.FileName != "" && d.Folder != "":
		return d.Folder + "/" + d.FileName
	case d.FileName != "":
		return d.FileName
	}
	return d.Title
}

// state is how far it is, in words.
func (d docRow) state() string {
	switch d.Status {
	case "completed":
		return counted(d.Chunks, "piece", "pieces")
	case "failed":
		return "failed: " + d.Error
	case "processing", "finalizing":
		return fmt.Sprintf("%d %% (%s)", d.Progress, d.Stage)
	}
	return d.Status
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// DocList lists documents.
type DocList struct {
	KB      string `help:"Knowledge base, by name or id." required:"" placeholder:"NAME" name:"kb"`
	Status  string `help:"Only those that are so: pending, processing, completed, failed, cancelled, draft." placeholder:"STATUS"`
	Keyword string `help:"Only those with this in title or file name." placeholder:"TEXT"`
}

// Help gives examples.
func (DocList) Help() string {
	return `Examples:
  refold doc list --kb Handbook
  refold doc list --kb Handbook --status failed --json | jq -r '.file_name + ": " + .error_message'`
}

// Run lists them.
func (d DocList) Run(e *env) error {
	return e.withClient(func(c *client) error {
		b, err := e.findBase(c, d.KB)
		if err != nil {
			return err
		}
		const size = 500
		query := url.Values{"page_size": {strconv.Itoa(size)}, "parse_status": {d.Status}, "keyword": {d.Keyword}}
		for page := 1; ; page++ {
			query.Set("page", strconv.Itoa(page))
			var rows []docRow
			if err := c.call(e.ctx, http.MethodGet, "/api/v1/knowledge-bases/"+url.PathEscape(b.ID)+"/knowledge?"+query.Encode(), nil, &rows); err != nil {
				return err
			}
			for _, row := range rows {
				if e.cli.JSON {
					e.line(row)
				} else {
					fmt.Fprintf(e.out, "%s  %s\n  %s\n", row.ID, plainText(row.name()), plainText(row.state()))
				}
			}
			if len(rows) < size {
				if page == 1 && len(rows) == 0 && !e.cli.JSON {
					fmt.Fprintf(e.err, "There are no such documents. Add some with: refold doc add FILE --kb %q\n", d.KB)
				}
				return nil
			}
		}
	})
}

// DocShow shows a document.
type DocShow struct {
	ID     string `arg:"" help:"Id of the document."`
	Chunks bool   `help:"Print its pieces too."`
}

// Help gives examples.
func (DocShow) Help() string {
	return `Examples:
  refold doc show ID
  refold doc show ID --chunks
  refold doc show ID --json | jq .notes`
}

// Run shows it.
func (d DocShow) Run(e *env) error {
	return e.withClient(func(c *client) error {
		var row docRow
		if err := c.call(e.ctx, http.MethodGet, "/api/v1/knowledge/"+url.PathEscape(d.ID), nil, &row); err != nil {
			return err
		}
		if e.cli.JSON {
			e.line(row)
		} else {
			fmt.Fprintf(e.out, "%s\n  %s, in %s\n  %s; %d bytes; added %s\n", plainText(row.Title), plainText(row.name()), plainText(row.BaseName), plainText(row.state()),
				row.Size, row.CreatedAt.Format(time.RFC3339))
			for _, note := range row.Notes {
				fmt.Fprintf(e.out, "  note: %s\n", plainText(note))
			}
		}
		if !d.Chunks {
			return nil
		}
		return e.chunks(c, d.ID)
	})
}

// chunks prints the pieces of a document in order.
func (e *env) chunks(c *client, document string) error {
	const size = 100
	for page := 1; ; page++ {
		var rows []struct {
			ID      string `json:"id"`
			Index   int    `json:"chunk_index"`
			Context string `json:"context_header,omitempty"`
			Content string `json:"content"`
		}
		if err := c.call(e.ctx, http.MethodGet, fmt.Sprintf("/api/v1/chunks/%s?page=%d&page_size=%d", url.PathEscape(document), page, size), nil, &rows); err != nil {
			return err
		}
		for _, p := range rows {
			if e.cli.JSON {
				e.line(p)
				continue
			}
			fmt.Fprintf(e.out, "\n[%d] %s\n", p.Index+1, plainText(p.Context))
			for line := range strings.SplitSeq(p.Content, "\n") {
				fmt.Fprintln(e.out, plainText(line))
			}
		}
		if len(rows) < size {
			return nil
		}
	}
}

// DocDelete deletes documents.
type DocDelete struct {
	IDs []string `arg:"" help:"Ids of documents." name:"id"`
}

// Help gives examples.
func (DocDelete) Help() string {
	return `Examples:
  refold doc delete ID
  refold doc delete $(refold doc list --kb Drafts --json | jq -r .id)`
}

// Run deletes them.
func (d DocDelete) Run(e *env) error {
	return e.withClient(func(c *client) error {
		for _, id := range d.IDs {
			if err := c.call(e.ctx, http.MethodDelete, "/api/v1/knowledge/"+url.PathEscape(id), nil, nil); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			if e.cli.JSON {
				e.line(map[string]any{"id": id, "deleted": true})
			} else {
				fmt.Fprintf(e.out, "%s is deleted.\n", plainText(id))
			}
		}
		return nil
	})
}
