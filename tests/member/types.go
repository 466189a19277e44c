package main

import (
	"fmt"
	"os"

	"pinnace.dev/member/types"
)

// runTypes prints the table of built-in types; the argument is the directory of the module k8s.io/kubernetes, whose
// published API documents are joined with the types linked into this binary.
func runTypes(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: member types DIRECTORY  (go list -m -f '{{.Dir}}' k8s.io/kubernetes)")
		return 2
	}
	table, err := types.Make(args[0])
	if err == nil {
		err = table.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "types: %v\n", err)
		return 1
	}
	return 0
}
