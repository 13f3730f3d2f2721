package control

import (
	"context"
	"sync"
)

// usualPorts lists the default ports of web servers and web frameworks.
var usualPorts = []int{80, 3000, 3001, 4200, 4321, 5000, 5173, 8000, 8001, 8080, 8081, 8888, 9000}

// ListeningPorts returns the ports of usualPorts on which programs of a sandbox listen, the
// smallest first. It tries to connect to each port, because this works with every isolation level.
func (c *Control) ListeningPorts(ctx context.Context, by Actor, id string) ([]int, error) {
	client, err := c.Client(ctx, by, id)
	if err != nil {
		return nil, err
	}
	listens := make([]bool, len(usualPorts))
	var tries sync.WaitGroup
	for i, port := range usualPorts {
		tries.Go(func() {
			if conn, err := dialPort(ctx, client, id, port); err == nil {
				conn.Close()
				listens[i] = true
			}
		})
	}
	tries.Wait()
	var ports []int
	for i, port := range usualPorts {
		if listens[i] {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
