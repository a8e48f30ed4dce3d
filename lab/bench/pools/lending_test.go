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
	back := func(r *puddle.Resource[int], err error) error {
		if err == nil {
			r.Release()
		}
		return err
	}
	return loans{
		acquire: func(ctx context.Context) error { return back(p.Acquire(ctx)) },
		try:     func(ctx context.Context) error { return back(p.TryAcquire(ctx)) },
		allIdle: func(context.Context) error {
			for _, r := range p.AcquireAllIdle() {
				r.ReleaseUnused()
			}
			return nil
		},
		end: p.Close,
	}, fill(size, p.CreateResource)
}

func lendPool(config generic.Config[int]) func(size int) (loans, error) {
	return func(size int) (loans, error) {
		config.Create = func(context.Context) (int, error) { return 1, nil }
		config.MaxSize = size
		p, err := generic.New(config)
		if err != nil {
			return loans{}, err
		}
		back := func(r generic.Resource[int], err error) error {
			if err == nil {
				r.Release()
			}
			return err
		}
		return loans{
			acquire: func(ctx context.Context) error { return back(p.Acquire(ctx)) },
			try:     func(ctx context.Context) error { return back(p.TryAcquire(ctx)) },
			allIdle: func(context.Context) error {
				for _, r := range p.AcquireAllIdle() {
					r.ReleaseUnused()
				}
				return nil
			},
			end: p.Close,
		}, fill(size, p.CreateResource)
	}
}

// fill has a pool create as many resources as it may have.
func fill(size int, create func(context.Context) error) error {
	for range size {
		if err := create(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// lending: what it costs to borrow and give back when nothing is short.
func lending() measurement {
	return lendingTo("lend", "one borrower, one resource: the time from Acquire to the end of Release", 1, 1,
		func(l loans) func(context.Context) error { return l.acquire })
}

// trying: the same with TryAcquire.
func trying() measurement {
	return lendingTo("try", "one borrower, one resource: the time from TryAcquire to the end of Release", 1, 1,
		func(l loans) func(context.Context) error { return l.try })
}

// lookingAtAll: what a look at all idle resources costs.
func lookingAtAll() measurement {
	return lendingTo("idle", "100 idle resources: the time from AcquireAllIdle to the end of the last ReleaseUnused", 1, 100,
		func(l loans) func(context.Context) error { return l.allIdle })
}

// contended: more borrowers than resources.
func contended() measurement {
	return lendingTo("contend", "64 borrowers of 8 resources: the time for one Acquire and Release, all together", 64, 8,
		func(l loans) func(context.Context) error { return l.acquire })
}

func lendingTo(name, about string, borrowers, size int, way func(loans) func(context.Context) error) measurement {
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
