// Package types makes the table of built-in Kubernetes types that the hub works from: what the Go types say (JSON
// names, protobuf numbers, pointers, patch tags) joined with what the published OpenAPI and discovery documents of
// the same release say (list types and keys, required fields, defaults, resources, verbs). Every disagreement
// between these sources is an error, so the table cannot be half right.
package types

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// Table is the whole committed file.
type Table struct {
	Kubernetes string
	Resources  []Resource
	Types      map[string]*Type
}

// Resource is one line of discovery with its subresources.
type Resource struct {
	Group              string        `json:"group"`
	Version            string        `json:"version"`
	Resource           string        `json:"resource"`
	Singular           string        `json:"singular"`
	Kind               string        `json:"kind"`
	Namespaced         bool          `json:"namespaced"`
	ShortNames         []string      `json:"shortNames,omitempty"`
	Categories         []string      `json:"categories,omitempty"`
	Verbs              []string      `json:"verbs"`
	Type               string        `json:"type"`
	StorageVersionHash string        `json:"storageVersionHash,omitempty"`
	Subresources       []Subresource `json:"subresources,omitempty"`
}

// Subresource names the kind it is read and written as, which may belong to another group.
type Subresource struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Version string   `json:"version"`
	Kind    string   `json:"kind"`
	Verbs   []string `json:"verbs"`
}

// GVK is a group, version and kind.
type GVK struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// Type is one Go struct, or one type with its own way of being written.
type Type struct {
	Go      string  `json:"go"`
	GVK     []GVK   `json:"gvk,omitempty"`
	Special string  `json:"special,omitempty"`
	MapType string  `json:"mapType,omitempty"`
	Fields  []Field `json:"fields,omitempty"`
}

// Field is one JSON member of a type. Fields of inlined structs stand in the list of the struct that inlines them;
// In then says through which protobuf fields the encoded form reaches them.
type Field struct {
	Name      string          `json:"name"`
	In        []int           `json:"in,omitempty"`
	Proto     int             `json:"proto,omitempty"`
	Wire      string          `json:"wire,omitempty"`
	Ptr       bool            `json:"ptr,omitempty"`
	OmitEmpty bool            `json:"omitempty,omitempty"`
	Required  bool            `json:"required,omitempty"`
	Default   json.RawMessage `json:"default,omitempty"`
	T         *Shape          `json:"t"`
}

// Shape is the type of a value.
type Shape struct {
	Any      bool     `json:"any,omitempty"`
	Ref      string   `json:"ref,omitempty"`
	P        string   `json:"p,omitempty"`
	Format   string   `json:"format,omitempty"`
	List     *Shape   `json:"list,omitempty"`
	Map      *Shape   `json:"map,omitempty"`
	Message  bool     `json:"message,omitempty"`
	ListType string   `json:"listType,omitempty"`
	Keys     []string `json:"keys,omitempty"`
	MapType  string   `json:"mapType,omitempty"`
	Patch    string   `json:"patch,omitempty"`
	MergeKey string   `json:"mergeKey,omitempty"`
}

// Write prints the table with one resource and one type a line, so that a new release is a readable difference.
func (t *Table) Write(to io.Writer) error {
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, "{\"kubernetes\":%q,\n\"resources\":[\n", t.Kubernetes)
	for i, resource := range t.Resources {
		if err := line(out, "", resource, i == len(t.Resources)-1); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "],\n\"types\":{\n")
	names := make([]string, 0, len(t.Types))
	for name := range t.Types {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		if err := line(out, name, t.Types[name], i == len(names)-1); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "}}\n")
	return out.Flush()
}

func line(out io.Writer, key string, value any, last bool) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	prefix, end := "", ",\n"
	if key != "" {
		prefix = fmt.Sprintf("%q:", key)
	}
	if last {
		end = "\n"
	}
	_, err := fmt.Fprintf(out, "%s%s%s", prefix, bytes.TrimRight(text.Bytes(), "\n"), end)
	return err
}
