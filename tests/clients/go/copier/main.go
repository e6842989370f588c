// Copies a topic in transactions until it is ended: copier BOOTSTRAP SOURCE TARGET NAME. The name is the transactional id and the group.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const batch = 50

func main() {
	for {
		fmt.Println("again:", copyAll(os.Args[1], os.Args[2], os.Args[3], os.Args[4]))
	}
}

// Returns what cannot be aborted and read again: a new session finds out what came of it.
func copyAll(bootstrap, source, target, name string) error {
	ctx := context.Background()
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.TransactionalID(name),
		kgo.ConsumerGroup(name), kgo.ConsumeTopics(source), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(), kgo.TransactionTimeout(time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(30*time.Second))
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		// Not the same as PollFetches: a transaction has so many records at the most, as in the other copiers.
		fetches := session.PollRecords(ctx, batch)
		if fetches.IsClientClosed() {
			return fmt.Errorf("closed")
		}
		for _, one := range fetches.Errors() {
			fmt.Println("fetch:", one.Err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(one *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: target, Partition: one.Partition, Value: one.Value}, failed.Promise())
		})
		if committed, err := session.End(ctx, failed.Err() == nil); err != nil {
			return err
		} else if !committed {
			fmt.Println("aborted")
		}
	}
}
