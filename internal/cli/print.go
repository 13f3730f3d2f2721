package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// printJSON prints a value as JSON with an indentation of two spaces and with sorted keys, as
// docs/json.md promises.
func printJSON(w io.Writer, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	// Go sorts the keys of maps but not the fields of structs. So the value is converted to maps
	// first.
	var sorted any
	numbers := json.NewDecoder(bytes.NewReader(b))
	numbers.UseNumber()
	if err := numbers.Decode(&sorted); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(sorted)
}

// table prints rows in aligned columns. The first row contains the headings.
func table(w io.Writer, rows [][]string) error {
	out := bufio.NewWriter(w)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprintln(t)
	}
	return errors.Join(t.Flush(), out.Flush())
}

// count formats a number of things, such as "1 file" and "2 files".
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// size formats a number of bytes with decimal units, such as "269 MB".
func size(bytes int64) string {
	const units = "kMGTPE"
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %cB", value, units[unit])
	}
	return fmt.Sprintf("%.0f %cB", value, units[unit])
}
