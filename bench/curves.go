package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// growth is the time of an operation on trees of several sizes.
type growth struct {
	name, floor string // the operation, and the command of the host
	points      []point
}

// point is the time for a tree of one size, in ms.
type point struct {
	files       int
	ours, floor float64
}

// add adds a measurement to the growth of its operation.
func (b *bench) add(name, floor string, p point) {
	i := slices.IndexFunc(b.growths, func(g growth) bool { return g.name == name })
	if i < 0 {
		i = len(b.growths)
		b.growths = append(b.growths, growth{name: name, floor: floor})
	}
	b.growths[i].points = append(b.growths[i].points, p)
}

// The picture has one panel for each operation. Both axes are logarithmic. The units are pixels.
const (
	panelWidth, panelHeight  = 250, 190
	left, right, top, bottom = 46, 20, 46, 26
	panels                   = 3          // in a row
	leastFiles, mostFiles    = 1e3, 1e5   // of the axis
	leastMs, mostMs          = 1.0, 100e3 // of the axis
	plotWidth, plotHeight    = panelWidth - left - right, panelHeight - top - bottom
	pictureStyle             = `text{font:11px system-ui,sans-serif;fill:#57606a}.name{font-weight:600;font-size:12px;fill:#1f2328}.grid{stroke:#d8dee4}.ours{stroke:#c2410c;fill:none;stroke-width:2}.floor{stroke:#57606a;fill:none;stroke-width:1.5;stroke-dasharray:4 3}.dot{fill:#c2410c}`
)

// drawCurves writes an SVG picture that shows how the times grow with the number of files.
func drawCurves(path string, all []growth) error {
	if len(all) == 0 {
		return fmt.Errorf("draw %s: the section trees was not measured", path)
	}
	var b strings.Builder
	rows := (len(all) + panels - 1) / panels
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", panels*panelWidth, rows*panelHeight)
	fmt.Fprintf(&b, "<title>Time of operations on workspaces of 1,000 to 100,000 files</title>\n<style>%s</style>\n", pictureStyle)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, g := range all {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%panels*panelWidth, i/panels*panelHeight)
		g.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func (g growth) draw(b *strings.Builder) {
	across := func(files float64) float64 {
		return left + plotWidth*math.Log(files/leastFiles)/math.Log(mostFiles/leastFiles)
	}
	up := func(ms float64) float64 {
		ms = min(max(ms, leastMs), mostMs)
		return top + plotHeight*(1-math.Log(ms/leastMs)/math.Log(mostMs/leastMs))
	}
	fmt.Fprintf(b, `<text class="name" x="%d" y="18">%s</text><text x="%d" y="33">dashed: %s</text>`+"\n", left, g.name, left, g.floor)
	for _, tick := range []struct {
		ms   float64
		text string
	}{{1, "1 ms"}, {10, "10 ms"}, {100, "0.1 s"}, {1e3, "1 s"}, {10e3, "10 s"}, {100e3, "100 s"}} {
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, up(tick.ms), plotWidth, left-5, up(tick.ms)+4, tick.text)
	}
	for _, files := range []float64{1e3, 1e4, 1e5} {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.0fk</text>`+"\n", across(files), panelHeight-10, files/1e3)
	}
	line := func(class string, ms func(p point) float64) {
		var at []string
		for _, p := range g.points {
			at = append(at, fmt.Sprintf("%.1f %.1f", across(float64(p.files)), up(ms(p))))
		}
		fmt.Fprintf(b, `<path class="%s" d="M%s"/>`+"\n", class, strings.Join(at, "L"))
	}
	line("floor", func(p point) float64 { return p.floor })
	line("ours", func(p point) float64 { return p.ours })
	for _, p := range g.points {
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"/>`+"\n", across(float64(p.files)), up(p.ours))
	}
}
