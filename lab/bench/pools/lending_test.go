package pools

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/puddle/v2"

	generic "github.com/quorate/quorate/pool"
)

// lender is a pool of resources of either kind.
type lender[R interface{ Release() }] interface {
	Acquire(ctx context.Context) (R, error)
	CreateResource(ctx context.Context) error
	Close()
}

func newPuddle(size int) (lender[*puddle.Resource[int]], error) {
	return puddle.NewPool(&puddle.Config[int]{
		Constructor: func(context.Context) (int, error) { return 1, nil },
		Destructor:  func(int) {},
		MaxSize:     int32(size),
	})
}

func newPool(size int) (lender[generic.Resource[int]], error) {
	return generic.New(generic.Config[int]{Create: func(context.Context) (int, error) { return 1, nil }, MaxSize: size})
}

// lending has borrowers acquire and release resources. It measures the time for one loan.
func lending(name string, borrowers, size int) measurement {
	return measurement{name: name, metrics: []string{"ns"}, length: time.Second, contenders: []contender{
		{"puddle", lendingFrom(newPuddle, borrowers, size)},
		{"pool", lendingFrom(newPool, borrowers, size)},
	}}
}

func lendingFrom[R interface{ Release() }](
	open func(size int) (lender[R], error), borrowers, size int,
) func(context.Context, time.Duration) ([]float64, error) {
	return func(ctx context.Context, d time.Duration) ([]float64, error) {
		p, err := open(size)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		for range size {
			if err := p.CreateResource(ctx); err != nil {
				return nil, err
			}
		}
		return borrowing(ctx, func(ctx context.Context) error {
			r, err := p.Acquire(ctx)
			if err == nil {
				r.Release()
			}
			return err
		}, borrowers, d)
	}
}

// borrowing returns the time for one loan: the elapsed time divided by the number of loans of
// all borrowers.
func borrowing(ctx context.Context, borrow func(context.Context) error, borrowers int, d time.Duration) ([]float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	const atOnce = 1000 // between two looks at the clock
	begin := time.Now()
	loans := make([]int, borrowers)
	var all sync.WaitGroup
	for i := range borrowers {
		all.Go(func() {
			for time.Since(begin) < d && ctx.Err() == nil {
				for range atOnce {
					if err := borrow(ctx); err != nil {
						cancel(err)
						return
					}
				}
				loans[i] += atOnce
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	total := 0
	for _, n := range loans {
		total += n
	}
	return []float64{float64(took) / float64(max(total, 1))}, context.Cause(ctx)
}
