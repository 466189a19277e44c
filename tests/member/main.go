// Command member is a whole Kubernetes control plane for tests in one binary: the first argument says which
// component this process is. Called through a symbolic link named kubectl it is kubectl.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs with a time zone.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = `usage: member COMPONENT [arguments]
  etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok   as the component itself
  pki        makes the keys, certificates and kubeconfig of one control plane
  stages     prints the kwok stages
  bootstrap  waits for an API server, creates nodes, waits until all is ready
  types      prints the table of built-in types`

func main() {
	component := filepath.Base(os.Args[0])
	if component != "kubectl" {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, usage)
			os.Exit(2)
		}
		// Drop our own name: the component parses os.Args as if it had been started under its own.
		component = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(run(apiserver.NewAPIServerCommand))
	case "kube-controller-manager":
		os.Exit(run(controllers.NewControllerManagerCommand))
	case "kube-scheduler":
		os.Exit(run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }))
	case "kubectl":
		runKubectl()
	case "kwok":
		os.Exit(runKwok())
	case "stages":
		printStages()
	case "pki":
		os.Exit(runPKI(os.Args[1:]))
	case "bootstrap":
		os.Exit(runBootstrap(os.Args[1:]))
	case "types":
		os.Exit(runTypes(os.Args[1:]))
	default:
		fmt.Fprintf(os.Stderr, "unknown component %q\n%s\n", component, usage)
		os.Exit(2)
	}
}

func run(command func() *cobra.Command) int {
	return cli.Run(command())
}

// runKubectl sets the verbosity before the command is made, because plug-in and preference handling log too.
func runKubectl() {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
