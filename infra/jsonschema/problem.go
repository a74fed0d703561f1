package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	lib "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const maxProblems = 20

// describe words the leaves of a failed validation, sorted.
func describe(failed *lib.ValidationError) []string {
	var all []string
	walk(failed, &all)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxProblems {
		more := fmt.Sprintf("... and %d more problems", len(all)-maxProblems)
		all = append(all[:maxProblems:maxProblems], more)
	}
	return all
}

func walk(e *lib.ValidationError, to *[]string) {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		// One sentence for all branches: each branch's own complaint would mislead.
		*to = append(*to, at(e, alternatives(e, k)))
		return
	case *kind.Not:
		*to = append(*to, at(e, "has a form that is not allowed"))
		return
	case *kind.Contains, *kind.MinContains:
		*to = append(*to, at(e, "lacks a required kind of item"))
		return
	}
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			walk(c, to)
		}
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*to = append(*to, join(append(slices.Clone(e.InstanceLocation), name))+": is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*to = append(*to, join(append(slices.Clone(e.InstanceLocation), name))+": is not a known property")
		}
	default:
		*to = append(*to, at(e, sentence(e.ErrorKind)))
	}
}

func at(e *lib.ValidationError, what string) string { return join(e.InstanceLocation) + ": " + what }

// join writes a place as steps.0.status.
func join(path []string) string {
	if len(path) == 0 {
		return "arguments"
	}
	return strings.Join(path, ".")
}

func alternatives(e *lib.ValidationError, k lib.ErrorKind) string {
	if one, ok := k.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
		return "fits more than one of the alternatives, exactly one must fit"
	}
	var types []string
	for _, c := range e.Causes {
		t, ok := c.ErrorKind.(*kind.Type)
		if !ok || len(c.Causes) > 0 {
			return "fits none of the allowed alternatives"
		}
		types = append(types, t.Want...)
	}
	if len(types) == 0 {
		return "fits none of the allowed alternatives"
	}
	return "must be " + list(types)
}

func sentence(k lib.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, is %s", list(k.Want), k.Got)
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.Const:
		return "must be " + value(k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s, has %d", count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, has %d", count(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Format:
		return "must have the format " + k.Want
	case *kind.DependentRequired:
		return fmt.Sprintf("with %s also needs %s", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.Dependency:
		return fmt.Sprintf("with %s also needs %s", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.AdditionalItems:
		return "has too many items"
	case *kind.MaxContains:
		return "has too many items of one kind"
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.PropertyNames:
		return fmt.Sprintf("the property name %q is not allowed", k.Property)
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return fmt.Sprintf("does not satisfy %q of the schema", path[0])
	}
	return "does not satisfy the schema"
}

func list(words []string) string { return strings.Join(words, " or ") }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(6), "0")
}

func values(all []any) string {
	var words []string
	for _, v := range all[:min(len(all), 20)] {
		words = append(words, value(v))
	}
	if len(all) > 20 {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}

func value(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
