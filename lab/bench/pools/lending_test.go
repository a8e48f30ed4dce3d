package pools

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/puddle/v2"

	generic "github.com/quorate/quorate/pool"
)

// resourcePool is a pool of resources, and what is done with it.
type resourcePool struct {
	name string
	open func(size int) (loans, error)
}

// loans are ways to borrow and give back.
type loans struct {
	acquire, try func(context.Context) error
	allIdle      func(context.Context) error
	end          func()
}

func acquire(l loans) func(context.Context) error { return l.acquire }
func try(l loans) func(context.Context) error     { return l.try }
func allIdle(l loans) func(context.Context) error { return l.allIdle }

func resourcePools() []resourcePool {
	return []resourcePool{
		{"puddle", lendPuddle},
		{"pool", lendPool(generic.Config[int]{})},
		{"pool-with-lifetimes", lendPool(generic.Config[int]{MaxIdleTime: time.Minute, MaxLifetime: time.Hour})},
	}
}

func lendPuddle(size int) (loans, error) {
	p, err := puddle.NewPool(&puddle.Config[int]{
		Constructor: func(context.Context) (int, error) { return 1, nil },
		Destructor:  func(int) {},
		MaxSize:     int32(size),
	})
	if err != nil {
		return loans{}, err
	}
	return lend(p, size)
}

func lendPool(config generic.Config[int]) func(size int) (loans, error) {
	return func(size int) (loans, error) {
		config.Create = func(context.Context) (int, error) { return 1, nil }
		config.MaxSize = size
		p, err := generic.New(config)
		if err != nil {
			return loans{}, err
		}
		return lend(p, size)
	}
}

// lender is a pool of either kind.
type lender[R interface {
	Release()
	ReleaseUnused()
}] interface {
	Acquire(ctx context.Context) (R, error)
	TryAcquire(ctx context.Context) (R, error)
	AcquireAllIdle() []R
	CreateResource(ctx context.Context) error
	Close()
}

// lend has a pool create as many resources as it may have.
func lend[R interface {
	Release()
	ReleaseUnused()
}](p lender[R], size int) (loans, error) {
	back := func(r R, err error) error {
		if err == nil {
			r.Release()
		}
		return err
	}
	l := loans{
		acquire: func(ctx context.Context) error { return back(p.Acquire(ctx)) },
		try:     func(ctx context.Context) error { return back(p.TryAcquire(ctx)) },
		allIdle: func(context.Context) error {
			for _, r := range p.AcquireAllIdle() {
				r.ReleaseUnused()
			}
			return nil
		},
		end: p.Close,
	}
	for range size {
		if err := p.CreateResource(context.Background()); err != nil {
			return l, err
		}
	}
	return l, nil
}

// lending has borrowers borrow and give back in one way.
func lending(name, about string, borrowers, size int, way func(loans) func(context.Context) error) measurement {
	c := measurement{
		name: name, about: about, metrics: []string{"ns"}, length: time.Second,
	}
	for _, l := range resourcePools() {
		c.contenders = append(c.contenders, contender{name: l.name, sample: func(ctx context.Context, d time.Duration) ([]float64, error) {
			opened, err := l.open(size)
			if opened.end != nil {
				defer opened.end()
			}
			if err != nil {
				return nil, err
			}
			return borrowing(ctx, way(opened), borrowers, d)
		}})
	}
	return c
}

// borrowing returns the time that one loan takes, that of all of them divided by their
// number.
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
