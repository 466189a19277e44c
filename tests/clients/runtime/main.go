// Command runtime is a controller as people write them with controller-runtime: for every ConfigMap with the label
// "mirror" it keeps a Secret of the same name that the ConfigMap owns, counts in an annotation how often it looked,
// and cleans up behind a finalizer. With "steps" it instead drives client-go's typed, dynamic, metadata and leader
// election clients once and prints what each saw, one line each.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "pinnace.dev/mirror"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctrl.SetLogger(zap.New())
	if len(os.Args) == 3 && os.Args[1] == "steps" {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		return steps(ctx, os.Args[2])
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "mirror",
		LeaderElectionNamespace: "default",
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Complete(&mirror{Client: manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

type mirror struct{ client.Client }

func (m *mirror) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := m.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["mirror"] == "" {
		return ctrl.Result{}, nil
	}
	if !source.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&source, finalizer) {
			return ctrl.Result{}, m.Update(ctx, &source)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&source, finalizer) {
		if err := m.Update(ctx, &source); err != nil {
			return ctrl.Result{}, err
		}
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, m.Client, copied, func() error {
		copied.Data = map[string][]byte{}
		for key, value := range source.Data {
			copied.Data[key] = []byte(value)
		}
		return controllerutil.SetControllerReference(&source, copied, m.Scheme())
	})
	return ctrl.Result{}, err
}

// steps drives the clients in a namespace that is there and empty.
func steps(ctx context.Context, namespace string) error {
	config := ctrl.GetConfigOrDie()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	parts := []struct {
		name string
		run  func(context.Context, *kubernetes.Clientset, string) (string, error)
	}{
		{"typed", typed}, {"apply", apply}, {"informer", informer}, {"conflict", conflict}, {"pages", pages},
	}
	for _, part := range parts {
		saw, err := part.run(ctx, clients, namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("%s: %s\n", part.name, saw)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := dynamicClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	made, err := maps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "dynamic-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("dynamic: %w", err)
	}
	fmt.Printf("dynamic: %t\n", strings.HasPrefix(made.GetName(), "dynamic-") && len(made.GetName()) > 8)
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := metadataClient.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).
		Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	fmt.Printf("metadata: %d, %s\n", len(list.Items), list.Items[0].Name)
	return elect(ctx, clients, namespace)
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}
}

func typed(ctx context.Context, clients *kubernetes.Clientset, namespace string) (string, error) {
	deployments := clients.AppsV1().Deployments(namespace)
	made, err := deployments.Create(ctx, deployment(), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	// A member's controllers write the status meanwhile.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 4
		_, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return "", err
	}
	patched, err := deployments.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}}}`), metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d replicas of %s, generation %d after %d",
		*patched.Spec.Replicas, patched.Spec.Template.Spec.Containers[0].Image, patched.Generation, made.Generation), nil
}

func apply(ctx context.Context, clients *kubernetes.Clientset, namespace string) (string, error) {
	wanted := appsapply.Deployment("web", namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(7))
	_, err := clients.AppsV1().Deployments(namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "another"})
	if !apierrors.IsConflict(err) {
		return "", fmt.Errorf("wanted a conflict of managers, got %v", err)
	}
	forced, err := clients.AppsV1().Deployments(namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "another", Force: true})
	if err != nil {
		return "", err
	}
	spec := coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"}).
		WithOwnerReferences(metaapply.OwnerReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName("web").WithUID(forced.UID))
	if _, err = clients.CoreV1().ConfigMaps(namespace).Apply(ctx, spec, metav1.ApplyOptions{FieldManager: "another"}); err != nil {
		return "", err
	}
	return fmt.Sprintf("conflict, then %d replicas", *forced.Spec.Replicas), nil
}

func informer(ctx context.Context, clients *kubernetes.Clientset, namespace string) (string, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	watched := factory.Core().V1().ConfigMaps()
	seen := make(chan string, 64)
	_, err := watched.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) { seen <- "deleted " + object.(*corev1.ConfigMap).Name },
	})
	if err != nil {
		return "", err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), watched.Informer().HasSynced) {
		return "", errors.New("the cache did not fill")
	}
	if _, err = watched.Lister().ConfigMaps(namespace).Get("applied"); err != nil {
		return "", err
	}
	if err = clients.CoreV1().ConfigMaps(namespace).Delete(ctx, "applied", metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	select {
	case event := <-seen:
		return event, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func conflict(ctx context.Context, clients *kubernetes.Clientset, namespace string) (string, error) {
	deployments := clients.AppsV1().Deployments(namespace)
	old, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	tries := 0
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		if tries == 1 {
			fresh := old.DeepCopy()
			fresh.Annotations = map[string]string{"first": "yes"}
			if _, err := deployments.Update(ctx, fresh, metav1.UpdateOptions{}); err != nil {
				return err
			}
		} else if old, err = deployments.Get(ctx, "web", metav1.GetOptions{}); err != nil {
			return err
		}
		if old.Annotations == nil {
			old.Annotations = map[string]string{}
		}
		old.Annotations["second"] = "yes"
		_, err := deployments.Update(ctx, old, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return "", err
	}
	_, err = deployments.Create(ctx, deployment(), metav1.CreateOptions{})
	return fmt.Sprintf("tried again %t, exists %t", tries > 1, apierrors.IsAlreadyExists(err)), nil
}

func pages(ctx context.Context, clients *kubernetes.Clientset, namespace string) (string, error) {
	secrets := clients.CoreV1().Secrets(namespace)
	for i := range 7 {
		name := fmt.Sprintf("page-%d", i)
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	count, requests, more := 0, 0, ""
	for {
		page, err := secrets.List(ctx, metav1.ListOptions{Limit: 3, Continue: more})
		if err != nil {
			return "", err
		}
		count += len(page.Items)
		requests++
		if more = page.Continue; more == "" {
			return fmt.Sprintf("%d in %d pages", count, requests), nil
		}
	}
}

func elect(ctx context.Context, clients *kubernetes.Clientset, namespace string) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	led := make(chan struct{})
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "steps"},
		},
		LeaseDuration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(led) },
			OnStoppedLeading: func() {},
		},
	})
	select {
	case <-led:
		fmt.Println("election: led")
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
