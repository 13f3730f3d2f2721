// Typecheck type-checks the packages of the modules in the given folders, and all packages that
// they import, from source. The environment variables GOOS and GOARCH select the system. With
// GOARCH=arm64, for example, it finds code that does not compile for that system, in a tenth of the
// compiler's time.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

const needed = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
	packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes | packages.NeedModule

func main() {
	failed := false
	for _, folder := range os.Args[1:] {
		found, err := packages.Load(&packages.Config{Mode: needed, Dir: folder}, "./...")
		if err != nil || len(found) == 0 {
			fmt.Fprintf(os.Stderr, "typecheck %s: %d packages, %v\n", folder, len(found), err)
			os.Exit(1)
		}
		failed = packages.PrintErrors(found) > 0 || failed
	}
	if failed {
		os.Exit(1)
	}
}
