package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// load sends requests at about the given rate until ctx is done, of three tenants and with
// 4 to 32 tokens each. What cannot be answered is left; the service says why.
func load(ctx context.Context, url string, rate float64) {
	if rate <= 0 {
		return
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	var requests sync.WaitGroup
	defer requests.Wait()
	slots := make(chan struct{}, 64)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // the service is behind
		}
		requests.Go(func() {
			defer func() { <-slots }()
			tenant := string(rune('a' + rand.IntN(3)))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s?tokens=%d&tenant=%s", url, 4+rand.IntN(29), tenant), nil)
			if err != nil {
				return
			}
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
}
