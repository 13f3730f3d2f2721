// Package layers contains tests of the project's structure. A test fails if a package imports a
// package of a higher layer, or if the guest program grows. It also fails if the table in
// docs/design.md lacks a package.
package layers
