package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// pause between two looks at a state that is waited for.
const pause = 50 * time.Millisecond

// runBootstrap waits for an API server, creates nodes for kwok to play, and ends when everything a user counts on is
// there: nodes Ready, the default namespace with its service account. One process that asks again is far cheaper than
// a kubectl for every look.
func runBootstrap(args []string) int {
	flags := flag.NewFlagSet("bootstrap", flag.ExitOnError)
	path := flags.String("kubeconfig", "", "administrator's kubeconfig")
	nodes := flags.Int("nodes", 2, "nodes to create, named node-1 and up")
	patience := flags.Duration("timeout", 2*time.Minute, "give up after")
	_ = flags.Parse(args) // ExitOnError.

	config, err := clientcmd.BuildConfigFromFlags("", *path)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), *patience)
		defer cancel()
		err = bootstrap(ctx, config, *nodes)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\n", err)
		return 1
	}
	return 0
}

func bootstrap(ctx context.Context, config *rest.Config, nodes int) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	err = until(ctx, "the API server to be ready", func() error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return err
	}
	for i := range nodes {
		err := until(ctx, "a node to be created", func() error {
			_, err := client.CoreV1().Nodes().Create(ctx, node(fmt.Sprintf("node-%d", i+1)), meta.CreateOptions{})
			if errors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	err = until(ctx, "the service account default/default", func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", meta.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, "all nodes to be Ready and free of taints", func() error {
		list, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if !ready(n) {
				return fmt.Errorf("node %s is not ready", n.Name)
			}
		}
		return nil
	})
}

func ready(n core.Node) bool {
	if len(n.Spec.Taints) != 0 {
		return false
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == core.NodeReady {
			return condition.Status == core.ConditionTrue
		}
	}
	return false
}

// node is small enough that a test can fill it: 8 CPUs, 32 GiB, 110 pods.
func node(name string) *core.Node {
	size := core.ResourceList{
		core.ResourceCPU:              resource.MustParse("8"),
		core.ResourceMemory:           resource.MustParse("32Gi"),
		core.ResourcePods:             resource.MustParse("110"),
		core.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				core.LabelHostname:   name,
				core.LabelOSStable:   "linux",
				core.LabelArchStable: "amd64",
			},
		},
		Status: core.NodeStatus{Capacity: size, Allocatable: size},
	}
}

// until calls look again and again; the last error says why when the time is over.
func until(ctx context.Context, what string, look func() error) error {
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-time.After(pause):
		}
	}
}
