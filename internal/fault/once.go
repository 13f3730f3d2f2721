package fault

import "strings"

// once removes the operation and the path that the standard library puts before a cause. It does
// this only if the path is the subject or the end of the subject. The error already contains the
// operation and the subject.
func once(cause, subject string) string {
	op, rest, ok := strings.Cut(cause, " ")
	if !ok || op == "" || subject == "" || strings.Trim(op, "abcdefghijklmnopqrstuvwxyz") != "" {
		return cause
	}
	for path := subject; ; {
		if why, ok := strings.CutPrefix(rest, path+": "); ok {
			if why == "no such file or directory" {
				return "file does not exist"
			}
			return why
		}
		if _, path, ok = strings.Cut(path, "/"); !ok || path == "" {
			return cause
		}
	}
}
