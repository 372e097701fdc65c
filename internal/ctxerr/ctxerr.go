// Package ctxerr says why a context is done, in the same words everywhere.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Of is ctx.Err, and context.Cause with it where that says more. Nil while ctx is not done.
func Of(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
