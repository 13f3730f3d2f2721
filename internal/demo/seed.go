package demo

import (
	"errors"
	"os"
	"path/filepath"
)

// Files of the tour: a program with a bug, a test that fails because of the bug, and a patch that
// fixes the bug.
const (
	program = `"""Functions that compute a mean."""


def mean(numbers):
    total = 0
    for n in numbers:
        total += n
    return total / (len(numbers) - 1)
`
	programTest = `import unittest

from means import mean


class Means(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([2, 4, 9]), 5)


unittest.main(verbosity=0)
`
	fixed = `"""Functions that compute a mean."""


def mean(numbers):
    return sum(numbers) / len(numbers)
`
	patch = `--- a/means.py
+++ b/means.py
@@ -2,7 +2,4 @@
 
 
 def mean(numbers):
-    total = 0
-    for n in numbers:
-        total += n
-    return total / (len(numbers) - 1)
+    return sum(numbers) / len(numbers)
`
)

// writeSeed creates the folder with the program, and the patch next to it.
func writeSeed(temporary string) (seed, patchFile string, err error) {
	seed, patchFile = filepath.Join(temporary, "means"), filepath.Join(temporary, "fix.patch")
	err = errors.Join(
		os.Mkdir(seed, 0o755),
		os.WriteFile(filepath.Join(seed, "means.py"), []byte(program), 0o644),
		os.WriteFile(filepath.Join(seed, "test.py"), []byte(programTest), 0o644),
		os.WriteFile(patchFile, []byte(patch), 0o644),
	)
	return seed, patchFile, err
}
