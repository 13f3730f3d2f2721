package testenv

import "os"

// RaceOptions returns the value of GORACE for processes that tests start. With it, they do not wait
// for a second when they exit, as the race detector does by default.
func RaceOptions() string { return "atexit_sleep_ms=0 " + os.Getenv("GORACE") }
