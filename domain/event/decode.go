package event

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Reading a stream is decoding, nearly all of it, and nearly all of what is
// decoded was written by marshal: plain strings, whole numbers, times, fields in
// order. So a decoder is made for each Go type once, which reads just that. Of
// anything else (unknown or repeated names, null, fractions, what is no JSON) it
// says "not for me", and encoding/json reads the whole event: what comes out, or
// what error, is always that of encoding/json.

// readFunc reads the value at the beginning of s into v and gives what follows.
type readFunc func(s source, v reflect.Value) (rest source, ok bool)

// source is what is left to read. shared, if not empty, is the whole text that
// it is the end of: short events share one string for all of theirs.
type source struct {
	b      []byte
	shared string
}

func (s source) after(n int) source { return source{s.b[n:], s.shared} }

// text gives the first n bytes as a string.
func (s source) text(n int) string {
	if s.shared == "" {
		return string(s.b[:n])
	}
	at := len(s.shared) - len(s.b)
	return s.shared[at : at+n]
}

// maxShared bounds how much a string may keep alive beside itself.
const maxShared = 1024

// decodeInto reads data into v, which is settable and zero. false leaves v in
// any state.
func decodeInto(read readFunc, data []byte, v reflect.Value) bool {
	s := source{b: data}
	if len(data) <= maxShared {
		s.shared = string(data)
	}
	s, ok := read(s, v)
	return ok && len(s.b) == 0
}

// Unmarshal is json.Unmarshal into a zero value, faster for what events are like:
// plain data that encoding/json has written.
func Unmarshal[T any](data []byte, v *T) error {
	t := reflect.TypeFor[T]()
	read, ok := readers.Load(t)
	if !ok {
		read, _ = readers.LoadOrStore(t, readerOf(t))
	}
	if decodeInto(read.(readFunc), data, reflect.ValueOf(v).Elem()) {
		return nil
	}
	*v = *new(T)
	return json.Unmarshal(data, v)
}

var readers sync.Map // readFunc by type

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
	textType = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

// readerOf makes the decoder of a type. inside are the types that it is part of:
// one that contains itself is left to encoding/json.
func readerOf(t reflect.Type, inside ...reflect.Type) readFunc {
	if slices.Contains(inside, t) {
		return readAny
	}
	inside = append(slices.Clip(inside), t)
	switch {
	case t == timeType:
		return readTime
	case t == rawType:
		return readRaw
	case t.Implements(jsonType), reflect.PointerTo(t).Implements(jsonType), t.Implements(textType), reflect.PointerTo(t).Implements(textType):
		return readAny
	}
	switch t.Kind() {
	case reflect.String:
		return readString
	case reflect.Bool:
		return readBool
	case reflect.Int, reflect.Int64:
		return readInt
	case reflect.Struct:
		return readerOfStruct(t, inside)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return readerOfSlice(t, inside)
		}
	}
	return readAny
}

// readAny leaves a value to encoding/json.
func readAny(s source, v reflect.Value) (source, bool) {
	n := extent(s.b)
	if n == 0 || json.Unmarshal(s.b[:n], v.Addr().Interface()) != nil {
		return s, false
	}
	return s.after(n), true
}

func readRaw(s source, v reflect.Value) (source, bool) {
	n := extent(s.b)
	if n == 0 || s.b[0] <= ' ' || s.b[n-1] <= ' ' || !json.Valid(s.b[:n]) {
		return s, false
	}
	v.SetBytes(append([]byte(nil), s.b[:n]...))
	return s.after(n), true
}

// extent gives the length of the value at the beginning of b if it is one, 0 if
// that can't be seen. It does not check what is inside.
func extent(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			n := quoted(b[i:])
			if n == 0 {
				return 0
			}
			if i += n; depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	if depth > 0 {
		return 0
	}
	return len(b)
}

// quoted gives the length of the string literal at the beginning of b, 0 if it
// has no end.
func quoted(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

func readTime(s source, v reflect.Value) (source, bool) {
	n := extent(s.b)
	if n < 2 || s.b[0] != '"' {
		return s, false
	}
	t, ok := v.Addr().Interface().(*time.Time)
	if !ok || t.UnmarshalJSON(s.b[:n]) != nil {
		return s, false
	}
	return s.after(n), true
}

func readBool(s source, v reflect.Value) (source, bool) {
	if len(s.b) >= 4 && string(s.b[:4]) == "true" {
		v.SetBool(true)
		return s.after(4), true
	}
	if len(s.b) >= 5 && string(s.b[:5]) == "false" {
		v.SetBool(false)
		return s.after(5), true
	}
	return s, false
}

func readInt(s source, v reflect.Value) (source, bool) {
	i, n, minus := 0, int64(0), false
	if len(s.b) > 0 && s.b[0] == '-' {
		i, minus = 1, true
	}
	begin := i
	for ; i < len(s.b) && s.b[i]-'0' <= 9; i++ {
		n = 10*n + int64(s.b[i]-'0')
	}
	digits := i - begin
	if digits == 0 || digits > 18 || digits > 1 && s.b[begin] == '0' || i < len(s.b) && (s.b[i] == '.' || s.b[i] == 'e' || s.b[i] == 'E') {
		return s, false
	}
	if minus {
		n = -n
	}
	v.SetInt(n)
	return s.after(i), true
}

func readString(s source, v reflect.Value) (source, bool) {
	text, rest, ok := stringOf(s)
	if ok {
		v.SetString(text)
	}
	return rest, ok
}

// stringOf reads a string literal.
func stringOf(s source) (text string, rest source, ok bool) {
	if len(s.b) == 0 || s.b[0] != '"' {
		return "", s, false
	}
	s = s.after(1)
	ascii := true
	for i, c := range s.b {
		switch {
		case c == '"':
			if !ascii && !utf8.Valid(s.b[:i]) {
				return "", s, false
			}
			return s.text(i), s.after(i + 1), true
		case c == '\\':
			return escapedOf(s, i)
		case c < ' ':
			return "", s, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", s, false
}

// escapedOf reads a string with escapes, the first of them at n.
func escapedOf(s source, n int) (text string, rest source, ok bool) {
	end := n
	for end < len(s.b) && s.b[end] != '"' {
		if s.b[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.b) {
		return "", s, false
	}
	in := s.b[:end]
	if !utf8.Valid(in) {
		return "", s, false
	}
	var out strings.Builder
	out.Grow(len(in))
	for {
		out.Write(in[:n])
		if n == len(in) {
			return out.String(), s.after(end + 1), true
		}
		in = in[n+1:] // after the backslash, which something follows
		size := 1
		switch in[0] {
		case '"', '\\', '/':
			out.WriteByte(in[0])
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		case 'u':
			r, ok := hex4(in[1:])
			if !ok || r >= 0xd800 && r < 0xe000 {
				return "", s, false
			}
			out.WriteRune(r)
			size = 5
		default:
			return "", s, false
		}
		in = in[size:]
		for n = 0; n < len(in) && in[n] != '\\'; n++ {
			if in[n] < ' ' {
				return "", s, false
			}
		}
	}
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func readerOfSlice(t reflect.Type, inside []reflect.Type) readFunc {
	item := readerOf(t.Elem(), inside...)
	return func(s source, v reflect.Value) (source, bool) {
		if len(s.b) >= 4 && string(s.b[:4]) == "null" {
			return s.after(4), true
		}
		if len(s.b) < 2 || s.b[0] != '[' {
			return s, false
		}
		if s.b[1] == ']' {
			v.Set(reflect.MakeSlice(t, 0, 0))
			return s.after(2), true
		}
		for n := 0; ; n++ {
			if n == v.Cap() {
				v.Grow(max(4, n))
			}
			v.SetLen(n + 1)
			var ok bool
			if s, ok = item(s.after(1), v.Index(n)); !ok || len(s.b) == 0 {
				return s, false
			}
			switch s.b[0] {
			case ',':
			case ']':
				return s.after(1), true
			default:
				return s, false
			}
		}
	}
}

type fieldReader struct {
	name  string
	index int
	read  readFunc
}

// readerOfStruct reads the fields that encoding/json would; a type with anything
// unusual about them is left to it.
func readerOfStruct(t reflect.Type, inside []reflect.Type) readFunc {
	var fields []fieldReader
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous, strings.Contains(options, "string"), name == "" && f.Tag.Get("json") != "":
			return readAny
		case !f.IsExported(), name == "-":
			continue
		case name == "":
			name = f.Name
		}
		for _, other := range fields {
			if strings.EqualFold(other.name, name) {
				return readAny
			}
		}
		fields = append(fields, fieldReader{name, i, readerOf(f.Type, inside...)})
	}
	if len(fields) > 64 {
		return readAny
	}
	return func(s source, v reflect.Value) (source, bool) {
		if len(s.b) < 2 || s.b[0] != '{' {
			return s, false
		}
		if s.b[1] == '}' {
			return s.after(2), true
		}
		var seen uint64
		next := 0
		for {
			// A name: the next field's, or one of those after it if some were left out.
			s = s.after(1)
			at := -1
			for range fields {
				if next == len(fields) {
					next = 0
				}
				if name := fields[next].name; len(s.b) > len(name)+3 && s.b[0] == '"' && s.b[len(name)+1] == '"' && string(s.b[1:len(name)+1]) == name {
					at = next
					break
				}
				next++
			}
			if at < 0 || seen&(1<<at) != 0 || s.b[len(fields[at].name)+2] != ':' {
				return s, false
			}
			seen |= 1 << at
			next++
			var ok bool
			if s, ok = fields[at].read(s.after(len(fields[at].name)+3), v.Field(fields[at].index)); !ok || len(s.b) == 0 {
				return s, false
			}
			switch s.b[0] {
			case ',':
			case '}':
				return s.after(1), true
			default:
				return s, false
			}
		}
	}
}
