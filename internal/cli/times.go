package cli

import (
	"fmt"
	"time"
)

// ago formats the time from then until now, such as "3 minutes ago".
func ago(now, then time.Time) string {
	if d := now.Sub(then); d >= time.Second {
		return span(d) + " ago"
	}
	return "just now"
}

// ahead formats the time from now until then, such as "in 9 minutes".
func ahead(now, then time.Time) string {
	if d := then.Sub(now); d >= time.Second {
		return "in " + span(d)
	}
	return "now"
}

// span formats a duration in the largest unit that fits.
func span(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		n := int((d + unit.size/2) / unit.size)
		if d < unit.size || n == 0 {
			continue
		}
		if n == 1 {
			return "1 " + unit.name
		}
		return fmt.Sprintf("%d %ss", n, unit.name)
	}
	return "0 seconds"
}
