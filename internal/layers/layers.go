// Package layers holds no code: its tests fail the build where an import runs upwards, a package has no room, or the guest grows.
package layers
