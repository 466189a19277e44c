package types

import (
	"fmt"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// specials are the types that write themselves to JSON in their own way.
var specials = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "microtime",
	reflect.TypeFor[meta.Duration]():                              "duration",
	reflect.TypeFor[meta.FieldsV1]():                              "fieldsv1",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                       "raw",
	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schemaorbool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schemaorarray",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schemaorstrings",
}

// requestTypes come with requests or answers of every resource and are reached from no resource.
var requestTypes = []reflect.Type{
	reflect.TypeFor[meta.CreateOptions](),
	reflect.TypeFor[meta.UpdateOptions](),
	reflect.TypeFor[meta.PatchOptions](),
	reflect.TypeFor[meta.DeleteOptions](),
	reflect.TypeFor[meta.GetOptions](),
	reflect.TypeFor[meta.ListOptions](),
	reflect.TypeFor[meta.Status](),
	reflect.TypeFor[meta.WatchEvent](),
	reflect.TypeFor[meta.PartialObjectMetadata](),
	reflect.TypeFor[meta.PartialObjectMetadataList](),
	reflect.TypeFor[meta.APIVersions](),
	reflect.TypeFor[meta.APIGroup](),
	reflect.TypeFor[meta.APIGroupList](),
	reflect.TypeFor[meta.APIResourceList](),
}

// message is what generated protobuf code gives to every type that is a message of its own.
type message interface{ Unmarshal([]byte) error }

type maker struct {
	published *published
	served    map[runtimeschema.GroupVersion]bool
	types     map[string]*Type
}

// Make builds the table from the scheme linked into this binary and the documents under the directory of the module
// k8s.io/kubernetes. The release is the name of that directory after the @.
func Make(directory string) (*Table, error) {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	if err := apiregistration.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	_, release, found := strings.Cut(filepath.Base(filepath.Clean(directory)), "@")
	if !found {
		return nil, fmt.Errorf("%s does not end in @VERSION", directory)
	}
	documents, err := readPublished(directory)
	if err != nil {
		return nil, err
	}
	resources, err := documents.resources()
	if err != nil {
		return nil, err
	}
	m := &maker{published: documents, served: map[runtimeschema.GroupVersion]bool{}, types: map[string]*Type{}}
	for _, r := range resources {
		m.served[runtimeschema.GroupVersion{Group: r.Group, Version: r.Version}] = true
	}
	for i := range resources {
		if err := m.addResource(&resources[i]); err != nil {
			return nil, fmt.Errorf("%s/%s %s: %w", resources[i].Group, resources[i].Version, resources[i].Resource, err)
		}
	}
	for _, t := range requestTypes {
		if _, err := m.add(t); err != nil {
			return nil, err
		}
	}
	return &Table{Kubernetes: release, Resources: resources, Types: m.types}, nil
}

func (m *maker) addResource(r *Resource) error {
	known := scheme.Scheme.AllKnownTypes()
	kind := runtimeschema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	t, found := known[kind]
	if !found {
		return fmt.Errorf("no Go type for %s", kind)
	}
	name, err := m.add(t)
	if err != nil {
		return err
	}
	r.Type = name
	kind.Kind += "List"
	if list, found := known[kind]; found {
		if _, err := m.add(list); err != nil {
			return err
		}
	}
	for _, sub := range r.Subresources {
		t, found := known[runtimeschema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}]
		if !found {
			return fmt.Errorf("no Go type for subresource %s", sub.Name)
		}
		if _, err := m.add(t); err != nil {
			return err
		}
	}
	return nil
}

// add puts a struct type and all it reaches into the table and returns its name.
func (m *maker) add(t reflect.Type) (string, error) {
	name := modelName(t)
	if m.types[name] != nil {
		return name, nil
	}
	entry := &Type{Go: t.PkgPath() + "." + t.Name(), Special: specials[t], GVK: m.kinds(name)}
	m.types[name] = entry // Before its fields: types refer to themselves.
	published := m.published.schemas[name]
	if published != nil {
		entry.MapType = published.MapType
	}
	if entry.Special != "" {
		// The fields of these Go structs are not members of their JSON, but may lead to types that are.
		for i := range t.NumField() {
			if of := bare(t.Field(i).Type); of.Kind() == reflect.Struct && strings.HasPrefix(of.PkgPath(), "k8s.io/apiext") {
				if _, err := m.add(of); err != nil {
					return "", err
				}
			}
		}
		return name, nil
	}
	fields, err := m.fields(t, published, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if published != nil && len(published.Properties) != len(fields)+typeMetaMembers(t, published) {
		return "", fmt.Errorf("%s: %d members in Go, %d properties in OpenAPI", name, len(fields), len(published.Properties))
	}
	entry.Fields = fields
	return name, nil
}

// typeMetaMembers counts apiVersion and kind, which the table implies by gvk.
func typeMetaMembers(t reflect.Type, published *schema) int {
	if field, found := t.FieldByName("TypeMeta"); !found || !field.Anonymous {
		return 0
	}
	count := 0
	for _, name := range []string{"apiVersion", "kind"} {
		if published.Properties[name] != nil {
			count++
		}
	}
	return count
}

// kinds keeps only those of served group versions: DeleteOptions and WatchEvent belong to all that exist.
func (m *maker) kinds(name string) []GVK {
	var kinds []GVK
	for _, k := range m.published.kinds[name] {
		if m.served[runtimeschema.GroupVersion{Group: k.Group, Version: k.Version}] {
			kinds = append(kinds, k)
		}
	}
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i], kinds[j]
		return a.Group+" "+a.Version+" "+a.Kind < b.Group+" "+b.Version+" "+b.Kind
	})
	return kinds
}

// fields lists the members of t; in is the path of protobuf fields from the outer struct to t when t is inlined.
func (m *maker) fields(t reflect.Type, published *schema, in []int) ([]Field, error) {
	var fields []Field
	for i := range t.NumField() {
		of := t.Field(i)
		name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
		if of.Type == reflect.TypeFor[meta.TypeMeta]() || name == "-" || !of.IsExported() {
			continue
		}
		number, wire, err := protobuf(of.Tag.Get("protobuf"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.Name, err)
		}
		if name == "" {
			if !of.Anonymous {
				return nil, fmt.Errorf("%s has no JSON name and is not embedded", of.Name)
			}
			path := in
			if number != 0 {
				path = append(append([]int{}, in...), number)
			}
			inlined, err := m.fields(bare(of.Type), published, path)
			if err != nil {
				return nil, err
			}
			fields = append(fields, inlined...)
			continue
		}
		field := Field{
			Name: name, In: in, Proto: number, Wire: wire,
			Ptr:       of.Type.Kind() == reflect.Pointer,
			OmitEmpty: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
		}
		var property *schema
		if published != nil {
			if property = published.Properties[name]; property == nil {
				return nil, fmt.Errorf("%s is not in the published OpenAPI", name)
			}
			field.Required = published.requires(name)
			field.Default = property.Default
		}
		if field.T, err = m.shape(of.Type, property); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		field.T.Patch, field.T.MergeKey = of.Tag.Get("patchStrategy"), of.Tag.Get("patchMergeKey")
		if property != nil && (property.Patch != field.T.Patch || property.MergeKey != field.T.MergeKey) {
			return nil, fmt.Errorf("%s: patch tags in Go are %q %q, in OpenAPI %q %q", name,
				field.T.Patch, field.T.MergeKey, property.Patch, property.MergeKey)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// shape describes one value; published may be nil for types that the API does not publish.
func (m *maker) shape(t reflect.Type, published *schema) (*Shape, error) {
	t = bare(t)
	if t.Kind() == reflect.Struct {
		name, err := m.add(t)
		if err != nil {
			return nil, err
		}
		if published != nil && published.target() != name {
			return nil, fmt.Errorf("Go says %s, OpenAPI says %q", name, published.target())
		}
		s := &Shape{Ref: name, MapType: m.types[name].MapType}
		if published != nil && published.MapType != "" {
			s.MapType = published.MapType
		}
		switch specials[t] {
		case "raw", "json":
			s.Any = true
		}
		return s, nil
	}
	if published != nil && published.target() != "" {
		return nil, fmt.Errorf("Go says %s, OpenAPI refers to %s", t, published.target())
	}
	isMessage := reflect.PointerTo(t).Implements(reflect.TypeFor[message]())
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return primitive("string", "byte", published)
	case t.Kind() == reflect.Slice:
		if published != nil && published.Items == nil {
			return nil, fmt.Errorf("Go says %s, OpenAPI says %q", t, published.Type)
		}
		s := &Shape{Message: isMessage}
		var items *schema
		if published != nil {
			items, s.ListType, s.Keys = published.Items, published.ListType, published.ListKeys
		}
		var err error
		s.List, err = m.shape(t.Elem(), items)
		return s, err
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		if published != nil && published.Values == nil {
			return nil, fmt.Errorf("Go says %s, OpenAPI says %q", t, published.Type)
		}
		s := &Shape{Message: isMessage}
		var values *schema
		if published != nil {
			values, s.MapType = published.Values, published.MapType
		}
		var err error
		s.Map, err = m.shape(t.Elem(), values)
		return s, err
	case t.Kind() == reflect.String:
		return primitive("string", "", published)
	case t.Kind() == reflect.Bool:
		return primitive("boolean", "", published)
	case t.Kind() == reflect.Int32:
		return primitive("integer", "int32", published)
	case t.Kind() == reflect.Int64:
		return primitive("integer", "int64", published)
	case t.Kind() == reflect.Float64:
		return primitive("number", "double", published)
	}
	return nil, fmt.Errorf("no shape for the Go type %s", t)
}

func primitive(kind, format string, published *schema) (*Shape, error) {
	if published != nil && (published.Type != kind || published.Format != format) {
		return nil, fmt.Errorf("Go says %s %q, OpenAPI says %s %q", kind, format, published.Type, published.Format)
	}
	return &Shape{P: kind, Format: format}, nil
}

func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// modelName is the name in OpenAPI: the domain of the package turned round, then its path.
func modelName(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	domain, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// protobuf reads the wire kind and the number from a tag such as bytes,2,opt,name=spec.
func protobuf(tag string) (int, string, error) {
	if tag == "" || tag == "-" {
		return 0, "", nil
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0, "", fmt.Errorf("protobuf tag %q", tag)
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, "", fmt.Errorf("protobuf tag %q: %w", tag, err)
	}
	return number, parts[0], nil
}
