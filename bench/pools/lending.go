package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/puddle/v2"

	generic "github.com/quorate/quorate/pool"
)

// lender borrows a resource and gives it back.
type lender struct {
	name string
	open func(size int) (borrow func(context.Context) error, end func(), err error)
}

func lenders() []lender {
	return []lender{
		{"jackc/puddle v2.2.3", func(size int) (func(context.Context) error, func(), error) {
			p, err := puddle.NewPool(&puddle.Config[int]{
				Constructor: func(context.Context) (int, error) { return 1, nil },
				Destructor:  func(int) {},
				MaxSize:     int32(size),
			})
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) error {
				r, err := p.Acquire(ctx)
				if err == nil {
					r.Release()
				}
				return err
			}, p.Close, nil
		}},
		{"pool", quorate(generic.Config[int]{})},
		{"pool with idle time and lifetime", quorate(generic.Config[int]{MaxIdleTime: time.Minute, MaxLifetime: time.Hour})},
	}
}

func quorate(config generic.Config[int]) func(size int) (func(context.Context) error, func(), error) {
	return func(size int) (func(context.Context) error, func(), error) {
		config.Create = func(context.Context) (int, error) { return 1, nil }
		config.MaxSize = size
		p, err := generic.New(config)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) error {
			r, err := p.Acquire(ctx)
			if err == nil {
				r.Release()
			}
			return err
		}, p.Close, nil
	}
}

// lending: what it costs to borrow and give back when nothing is short.
func lending() measurement {
	return lendingTo("lend", "one borrower, one resource: the time from Acquire to the end of Release", 1, 1)
}

// contended: the same with more borrowers than resources.
func contended() measurement {
	return lendingTo("contend", "64 borrowers of 8 resources: the time for one Acquire and Release, all together", 64, 8)
}

func lendingTo(name, about string, borrowers, size int) measurement {
	c := measurement{
		name: name, about: about, metrics: []metric{{"time", nanoseconds}},
		long: time.Second, short: 20 * time.Millisecond,
	}
	for _, l := range lenders() {
		c.contenders = append(c.contenders, contender{name: l.name, sample: func(ctx context.Context, d time.Duration) ([]float64, error) {
			borrow, end, err := l.open(size)
			if err != nil {
				return nil, err
			}
			defer end()
			return borrowing(ctx, borrow, borrowers, d)
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
	return []float64{took.Seconds() / float64(max(total, 1))}, context.Cause(ctx)
}
