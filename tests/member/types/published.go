package types

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// published is what a Kubernetes release ships beside its sources: api/openapi-spec and api/discovery.
type published struct {
	directory string
	// schemas by OpenAPI model name, from the version 3 documents (version 2 has no defaults).
	schemas map[string]*schema
	// kinds by OpenAPI model name, from the version 2 document (version 3 splits shared types by group).
	kinds map[string][]GVK
}

// schema holds the parts of an OpenAPI schema that the table keeps.
type schema struct {
	Ref        string             `json:"$ref"`
	AllOf      []*schema          `json:"allOf"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Items      *schema            `json:"items"`
	Values     *schema            `json:"additionalProperties"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Default    json.RawMessage    `json:"default"`
	ListType   string             `json:"x-kubernetes-list-type"`
	ListKeys   []string           `json:"x-kubernetes-list-map-keys"`
	MapType    string             `json:"x-kubernetes-map-type"`
	Patch      string             `json:"x-kubernetes-patch-strategy"`
	MergeKey   string             `json:"x-kubernetes-patch-merge-key"`
	Kinds      []GVK              `json:"x-kubernetes-group-version-kind"`
}

// target is the model name that this schema refers to, empty if it is not a reference.
func (s *schema) target() string {
	ref := s.Ref
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref
	}
	return ref[strings.LastIndex(ref, "/")+1:]
}

func (s *schema) requires(name string) bool {
	for _, required := range s.Required {
		if required == name {
			return true
		}
	}
	return false
}

func readPublished(directory string) (*published, error) {
	p := &published{directory: directory, schemas: map[string]*schema{}, kinds: map[string][]GVK{}}
	files, err := filepath.Glob(filepath.Join(directory, "api/openapi-spec/v3/*_openapi.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		var document struct {
			Components struct{ Schemas map[string]*schema }
		}
		if err := readJSON(file, &document); err != nil {
			return nil, err
		}
		for name, schema := range document.Components.Schemas {
			p.schemas[name] = schema
		}
	}
	var document struct{ Definitions map[string]*schema }
	if err := readJSON(filepath.Join(directory, "api/openapi-spec/swagger.json"), &document); err != nil {
		return nil, err
	}
	for name, schema := range document.Definitions {
		p.kinds[name] = schema.Kinds
	}
	if len(p.schemas) == 0 {
		return nil, fmt.Errorf("%s holds no api/openapi-spec: give the directory of the module k8s.io/kubernetes", directory)
	}
	return p, nil
}

// discovered is one entry of a published legacy discovery document.
type discovered struct {
	Name, SingularName, Group, Version, Kind string
	Namespaced                               bool
	ShortNames, Categories, Verbs            []string
	StorageVersionHash                       string
}

var generallyAvailable = regexp.MustCompile(`^v[0-9]+$`)

// resources lists what an API server serves by default, in the order of discovery: the core group, then groups by
// priority, in each group the preferred version first. Since Kubernetes 1.24 that is what is generally available;
// alpha and beta versions are off until somebody switches them on.
func (p *published) resources() ([]Resource, error) {
	type version struct{ group, version string }
	versions := []version{{"", "v1"}}
	var order struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct{ Version string }
		}
	}
	if err := readJSON(filepath.Join(p.directory, "api/discovery/aggregated_v2.json"), &order); err != nil {
		return nil, err
	}
	for _, group := range order.Items {
		for _, v := range group.Versions {
			if generallyAvailable.MatchString(v.Version) {
				versions = append(versions, version{group.Metadata.Name, v.Version})
			}
		}
	}
	var resources []Resource
	for _, v := range versions {
		name := "api__v1.json"
		if v.group != "" {
			name = fmt.Sprintf("apis__%s__%s.json", v.group, v.version)
		}
		var list struct{ Resources []discovered }
		if err := readJSON(filepath.Join(p.directory, "api/discovery", name), &list); err != nil {
			return nil, err
		}
		found, err := group(v.group, v.version, list.Resources)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		resources = append(resources, found...)
	}
	return resources, nil
}

// group turns the flat list of one group version into resources with their subresources.
func group(name, version string, list []discovered) ([]Resource, error) {
	var resources []Resource
	at := map[string]int{}
	for _, d := range list {
		if d.Group == "" && d.Version == "" {
			d.Group, d.Version = name, version
		}
		parent, sub, isSub := strings.Cut(d.Name, "/")
		if !isSub {
			at[d.Name] = len(resources)
			resources = append(resources, Resource{
				Group: name, Version: version, Resource: d.Name, Singular: d.SingularName, Kind: d.Kind,
				Namespaced: d.Namespaced, ShortNames: d.ShortNames, Categories: d.Categories, Verbs: d.Verbs,
				StorageVersionHash: d.StorageVersionHash,
			})
			continue
		}
		i, known := at[parent]
		if !known {
			return nil, fmt.Errorf("subresource %s comes before its resource", d.Name)
		}
		resources[i].Subresources = append(resources[i].Subresources,
			Subresource{Name: sub, Group: d.Group, Version: d.Version, Kind: d.Kind, Verbs: d.Verbs})
	}
	return resources, nil
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
