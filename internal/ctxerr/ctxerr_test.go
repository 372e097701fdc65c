package ctxerr

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBothTheErrorAndTheCauseAreFound(t *testing.T) {
	mine := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(context.Background())
	require.NoError(t, Of(ctx))
	cancel(mine)
	require.ErrorIs(t, Of(ctx), context.Canceled)
	require.ErrorIs(t, Of(ctx), mine)
	plain, cancelPlain := context.WithTimeout(context.Background(), -time.Second)
	defer cancelPlain()
	require.Equal(t, context.DeadlineExceeded, Of(plain))
}
