package mcp

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Brief formats a result for a model. Each non-empty field becomes one line, in the order of the
// struct. A list of structs becomes one line per element.
func Brief(result any) string {
	var b strings.Builder
	for _, f := range fieldsOf(reflect.ValueOf(result)) {
		if f.value.Kind() == reflect.Slice && f.value.Len() == 0 {
			fmt.Fprintf(&b, "%s: none\n", f.name)
			continue
		}
		if f.value.IsZero() {
			continue
		}
		if f.value.Kind() == reflect.Slice && isStruct(f.value.Type().Elem()) {
			fmt.Fprintf(&b, "%s:\n", f.name)
			for i := range f.value.Len() {
				fmt.Fprintf(&b, "- %s\n", inline(f.value.Index(i)))
			}
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", f.name, inline(f.value))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Inline formats a value on one line, without its empty fields.
func Inline(value any) string { return inline(reflect.ValueOf(value)) }

type field struct {
	name  string
	value reflect.Value
}

// fieldsOf returns the fields of a struct by their JSON names.
func fieldsOf(v reflect.Value) (all []field) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case f.Anonymous && name == "":
			all = append(all, fieldsOf(v.Field(i))...)
		case f.IsExported() && name != "-" && name != "":
			all = append(all, field{name, v.Field(i)})
		}
	}
	return all
}

func isStruct(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// inline implements Inline.
func inline(v reflect.Value) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	var parts []string
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return v.Interface().(time.Time).UTC().Format(time.RFC3339)
	case v.Kind() == reflect.String && strings.ContainsAny(v.String(), "\n\r\t;\""):
		return fmt.Sprintf("%q", v.String())
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v) {
			if text := inline(f.value); !f.value.IsZero() && text != "" {
				parts = append(parts, f.name+": "+text)
			}
		}
		return strings.Join(parts, "; ")
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if text := inline(v.Index(i)); isStruct(v.Type().Elem()) {
				parts = append(parts, "("+text+")")
			} else {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, ", ")
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			parts = append(parts, fmt.Sprint(key)+"="+inline(v.MapIndex(key)))
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v.Interface())
}
