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

// printJSON prints a value with two spaces of indentation and sorted keys: docs/json.md promises that much.
func printJSON(w io.Writer, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	// Go keeps the order of a struct's fields, but sorts the keys of a map: so the value goes through maps.
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

// table prints rows in aligned columns, the first of them as the heading.
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

// size gives bytes for people: "269 MB", in powers of ten as disks are sold.
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
