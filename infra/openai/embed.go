package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	goopenai "github.com/sashabaranov/go-openai"

	"refold/handlers"
)

// maxDims is the longest vector that is taken.
const maxDims = 4096

// EmbedOptions are what an embedding model may need beside Config. The zero value
// is right for most.
type EmbedOptions struct {
	// Name takes the place of the model's name in Embedder.Name. Whoever changes what
	// vectors a model gives must give it another one.
	Name string
	// Dimensions asks for vectors of a length; 0 takes what the model gives.
	Dimensions int
	// Batch is how many texts one request has, handlers.MaxEmbedBatch if it is 0. A
	// server that refuses that many is asked for fewer.
	Batch int
}

// Embedder is a handlers.Embedder over /embeddings. Safe for concurrent use.
type Embedder struct {
	client *Client
	name   string
	dims   int
	batch  atomic.Int32
}

var _ handlers.Embedder = (*Embedder)(nil)

// NewEmbedder makes an embedder. It sends nothing. The model must be named, as
// vectors are known by its name.
func NewEmbedder(c Config, o EmbedOptions) (*Embedder, error) {
	client, err := taskClient(c, "embeddings", "input", "encoding_format", "dimensions")
	if err != nil {
		return nil, err
	}
	if o.Dimensions < 0 || o.Dimensions > maxDims {
		return nil, fmt.Errorf("dimensions: want 1 to %d", maxDims)
	}
	e := &Embedder{client: client, name: o.Name, dims: o.Dimensions}
	if e.name == "" {
		e.name = c.Model
		if o.Dimensions > 0 {
			e.name = fmt.Sprintf("%s@%d", c.Model, o.Dimensions)
		}
	}
	if o.Batch <= 0 || o.Batch > handlers.MaxEmbedBatch {
		o.Batch = handlers.MaxEmbedBatch
	}
	e.batch.Store(int32(o.Batch))
	return e, nil
}

// Name implements handlers.Embedder.
func (e *Embedder) Name() string { return e.name }

// Embed implements handlers.Embedder. A text that is too long for the model is
// cut, as the beginning of a text stands for it better than nothing.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(out) < len(texts) {
		rest := texts[len(out):]
		size := min(int(e.batch.Load()), len(rest))
		got, err := e.once(ctx, rest[:size])
		// Servers differ in how many texts they take, and say so in many ways.
		for err != nil && size > 1 && refused(err) {
			many := code(err) == "bad_request" // and not one text that is too long
			size = max(size/4, 1)
			if got, err = e.once(ctx, rest[:size]); err == nil && many {
				e.batch.Store(int32(size))
			}
		}
		if err != nil && size == 1 && code(err) == "context_overflow" {
			got, err = e.shorter(ctx, rest[0])
		}
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && len(got[0]) != len(out[0]) {
			return nil, e.client.bad("embeddings", "its vectors differ in length", nil)
		}
		out = append(out, got...)
	}
	return out, nil
}

func code(err error) string {
	var m *handlers.ModelError
	if errors.As(err, &m) {
		return m.Code
	}
	return ""
}

func refused(err error) bool { return code(err) == "bad_request" || code(err) == "context_overflow" }

// shorter tries half of a text, and half of that.
func (e *Embedder) shorter(ctx context.Context, text string) (got [][]float32, err error) {
	for range 4 {
		n := utf8.RuneCountInString(text) / 2
		for i := range text {
			if n--; n < 0 {
				text = text[:i]
				break
			}
		}
		if got, err = e.once(ctx, []string{text}); err == nil || code(err) != "context_overflow" {
			break
		}
	}
	return got, err
}

// once embeds the texts of one request.
func (e *Embedder) once(ctx context.Context, texts []string) ([][]float32, error) {
	input := make([]string, len(texts))
	for i, t := range texts {
		if input[i] = strings.ToValidUTF8(t, "\ufffd"); strings.TrimSpace(t) == "" {
			input[i] = "." // blank texts are refused
		}
	}
	fields := map[string]any{"input": input, "encoding_format": goopenai.EmbeddingEncodingFormatFloat}
	if e.dims > 0 {
		fields["dimensions"] = e.dims
	}
	raw, err := e.client.post(ctx, "embeddings", fields)
	if err != nil {
		return nil, err
	}
	out, err := vectorsOf(raw, len(texts))
	if err == nil && e.dims > 0 && len(out[0]) != e.dims {
		err = fmt.Errorf("its vectors have %d components, not %d", len(out[0]), e.dims)
	}
	if err != nil {
		return nil, e.client.bad("embeddings", err.Error(), nil)
	}
	return out, nil
}

// vectorsOf reads n vectors of one length, in the order of the texts.
func vectorsOf(raw json.RawMessage, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Embeddings []json.RawMessage `json:"embeddings"` // of some servers
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("it has another form")
	}
	list := answer.Embeddings
	if len(list) == 0 {
		list = make([]json.RawMessage, len(answer.Data))
		places := make([]int, len(answer.Data))
		numbered, given := true, false
		seen := map[int]bool{}
		for i, d := range answer.Data {
			if d.Index == nil {
				numbered = false
				continue
			}
			given = given || *d.Index != 0
			places[i] = *d.Index
			numbered = numbered && !seen[*d.Index] && *d.Index >= 0 && *d.Index < len(list)
			seen[*d.Index] = true
		}
		if !numbered && given {
			return nil, errors.New("its vectors are numbered wrongly")
		}
		for i, d := range answer.Data {
			if numbered {
				list[places[i]] = d.Embedding
			} else {
				list[i] = d.Embedding // without numbers the order counts
			}
		}
	}
	if len(list) != n {
		return nil, fmt.Errorf("it has %d vectors for %d texts", len(list), n)
	}
	out := make([][]float32, n)
	for i, l := range list {
		v, err := vectorOf(l)
		if err != nil {
			return nil, err
		}
		if len(v) == 0 || len(v) > maxDims || i > 0 && len(v) != len(out[0]) {
			return nil, fmt.Errorf("a vector has %d components", len(v))
		}
		for _, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return nil, errors.New("a vector has a component that is no number")
			}
		}
		out[i] = v
	}
	return out, nil
}

// vectorOf reads a vector: numbers, or the base64 of their bytes.
func vectorOf(raw json.RawMessage) ([]float32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' {
		var numbers []*float64
		if json.Unmarshal(raw, &numbers) != nil {
			return nil, errors.New("a vector is no list of numbers")
		}
		v := make([]float32, len(numbers))
		for i, x := range numbers {
			if x == nil {
				return nil, errors.New("a vector has a component that is no number")
			}
			v[i] = float32(*x)
		}
		return v, nil
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid JSON
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return nil, errors.New("a vector is no base64 of numbers")
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}
