// franz-go against the node under test: makes every check and prints one line of JSON for each.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	wait              = 25 * time.Second
	largeMessageBytes = 10 * 1024 * 1024
)

var (
	bootstrap string
	admin     *kadm.Client
	ctx       = context.Background()
)

type failed struct{ error }

func must[T any](value T, err error) T {
	if err != nil {
		panic(failed{err})
	}
	return value
}

func holds(condition bool, what string, arguments ...any) {
	if !condition {
		panic(failed{fmt.Errorf(what, arguments...)})
	}
}

func check(name string, body func()) {
	var failure any
	func() {
		defer func() {
			if thrown := recover(); thrown != nil {
				failure = fmt.Sprint(thrown)
			}
		}()
		body()
	}()
	fmt.Println(string(must(json.Marshal(struct {
		Check string `json:"check"`
		Error any    `json:"error"`
	}{name, failure}))))
}

func newName() string { return fmt.Sprintf("t-%012x", rand.Uint64()>>16) }

func makeTopic(partitions int32, configs map[string]string) string {
	topic := newName()
	given := map[string]*string{}
	for key, value := range configs {
		given[key] = &value
	}
	must(admin.CreateTopic(ctx, partitions, 1, given, topic))
	return topic
}

func client(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, options...)...))
}

func produce(records []*kgo.Record, options ...kgo.Opt) error {
	producer := client(options...)
	defer producer.Close()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return producer.ProduceSync(limited, records...).FirstErr()
}

func valuesOf(topic string, values ...string) (records []*kgo.Record) {
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value)})
	}
	return records
}

func read(consumer *kgo.Client, count int) (records []*kgo.Record) {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for len(records) < count {
		fetches := consumer.PollFetches(limited)
		holds(fetches.Err0() == nil, "%d of %d records came: %v", len(records), count, fetches.Err0())
		records = append(records, fetches.Records()...)
	}
	return records
}

func readAll(topic string, count int, options ...kgo.Opt) []*kgo.Record {
	consumer := client(append(options, kgo.ConsumeTopics(topic))...)
	defer consumer.Close()
	return read(consumer, count)
}

func until(condition func() bool, what string) {
	for deadline := time.Now().Add(wait); !condition(); time.Sleep(20 * time.Millisecond) {
		holds(time.Now().Before(deadline), "not in time: %s", what)
	}
}

// A group member that keeps which partitions it owns and how many records came.
type member struct {
	sync.Mutex
	consumer   *kgo.Client
	partitions []int32
	received   int
}

func join(topic string, options ...kgo.Opt) *member {
	joined := &member{}
	taken := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		joined.Lock()
		defer joined.Unlock()
		joined.partitions = slices.DeleteFunc(joined.partitions, func(one int32) bool { return slices.Contains(lost[topic], one) })
	}
	given := func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
		joined.Lock()
		defer joined.Unlock()
		joined.partitions = append(joined.partitions, assigned[topic]...)
	}
	joined.consumer = client(append(options, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.OnPartitionsAssigned(given), kgo.OnPartitionsRevoked(taken),
		kgo.OnPartitionsLost(taken))...)
	go func() {
		for {
			fetches := joined.consumer.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			joined.Lock()
			joined.received += fetches.NumRecords()
			joined.Unlock()
		}
	}()
	return joined
}

func (m *member) owns() []int32 {
	m.Lock()
	defer m.Unlock()
	return slices.Clone(m.partitions)
}

func (m *member) count() int {
	m.Lock()
	defer m.Unlock()
	return m.received
}

func rebalance(options ...kgo.Opt) {
	topic := makeTopic(4, nil)
	first := join(topic, options...)
	defer first.consumer.Close()
	until(func() bool { return len(first.owns()) == 4 }, "the first member has all partitions")
	second := join(topic, options...)
	until(func() bool {
		all := append(first.owns(), second.owns()...)
		slices.Sort(all)
		return len(first.owns()) == 2 && slices.Equal(all, []int32{0, 1, 2, 3})
	}, "both members have partitions")
	holds(produce(valuesOf(topic, "a", "b", "c", "d")) == nil, "produced")
	until(func() bool { return first.count()+second.count() == 4 }, "both members read")
	second.consumer.Close()
	until(func() bool { return len(first.owns()) == 4 }, "the last member has all partitions")
}

func roundTrip(codec kgo.CompressionCodec) {
	topic := makeTopic(1, nil)
	value := bytes.Repeat([]byte("compress me, please "), 500)
	holds(produce([]*kgo.Record{{Topic: topic, Value: value}}, kgo.ProducerBatchCompression(codec)) == nil, "produced")
	holds(bytes.Equal(readAll(topic, 1)[0].Value, value), "the value came back")
}

func recordChecks() {
	check("default settings produce and consume", func() {
		topic := makeTopic(3, nil)
		must(0, produce(valuesOf(topic, "a", "b", "c")))
		holds(len(readAll(topic, 3)) == 3, "three records")
	})
	check("headers, tombstones, null keys and empty values come back", func() {
		topic := makeTopic(1, nil)
		headers := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}
		must(0, produce([]*kgo.Record{{Topic: topic, Key: []byte("deleted")}, {Topic: topic, Value: []byte{}, Headers: headers}}))
		records := readAll(topic, 2)
		holds(records[0].Value == nil && string(records[0].Key) == "deleted", "a tombstone")
		holds(records[1].Key == nil && records[1].Value != nil && len(records[1].Value) == 0, "an empty value without a key")
		holds(len(records[1].Headers) == 2 && string(records[1].Headers[1].Value) == "2", "headers")
	})
	check("gzip round-trips", func() { roundTrip(kgo.GzipCompression()) })
	check("snappy round-trips", func() { roundTrip(kgo.SnappyCompression()) })
	check("lz4 round-trips", func() { roundTrip(kgo.Lz4Compression()) })
	check("zstd round-trips", func() { roundTrip(kgo.ZstdCompression()) })
	check("messages from one byte to ten megabytes round-trip", func() {
		topic := makeTopic(1, map[string]string{"max.message.bytes": fmt.Sprint(largeMessageBytes + 1024)})
		sizes := []int{1, 1000, 1024 * 1024, largeMessageBytes}
		for _, size := range sizes {
			record := &kgo.Record{Topic: topic, Value: make([]byte, size)}
			raw := kgo.ProducerBatchCompression(kgo.NoCompression())
			must(0, produce([]*kgo.Record{record}, kgo.ProducerBatchMaxBytes(largeMessageBytes+512), raw))
		}
		for number, record := range readAll(topic, len(sizes)) {
			holds(len(record.Value) == sizes[number], "size %d came as %d", sizes[number], len(record.Value))
		}
	})
	check("a message over the topic limit is refused", func() {
		topic := makeTopic(1, map[string]string{"max.message.bytes": "10000"})
		record := &kgo.Record{Topic: topic, Value: make([]byte, 20_000)}
		err := produce([]*kgo.Record{record}, kgo.ProducerBatchCompression(kgo.NoCompression()))
		holds(errors.Is(err, kerr.MessageTooLarge), "expected MESSAGE_TOO_LARGE, found %v", err)
	})
	check("a topic that is not there is created by the first message", func() {
		topic := newName()
		must(0, produce(valuesOf(topic, "first"), kgo.AllowAutoTopicCreation()))
		holds(string(readAll(topic, 1)[0].Value) == "first", "the message")
	})
	check("reading starts at a time", func() {
		topic := makeTopic(1, nil)
		start := time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
		records := valuesOf(topic, "0", "1", "2", "3")
		for number, record := range records {
			record.Timestamp = start.Add(time.Duration(number) * time.Second)
		}
		must(0, produce(records))
		at := kgo.NewOffset().AfterMilli(start.UnixMilli() + 1500)
		first := readAll(topic, 2, kgo.ConsumeStartOffset(at))[0]
		holds(first.Offset == 2 && first.Timestamp.Equal(records[2].Timestamp), "offset 2 came as %d", first.Offset)
	})
}

func groupChecks() {
	check("cooperative members share the partitions and the last one gets all", func() { rebalance() })
	check("eager members share the partitions and the last one gets all", func() { rebalance(kgo.Balancers(kgo.RangeBalancer())) })
	check("members of the new protocol share the partitions", func() { rebalance(kgo.ServerSideBalancer()) })
	check("a group goes on where it committed", func() {
		topic := makeTopic(1, nil)
		must(0, produce(valuesOf(topic, "one", "two")))
		consumer := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
		read(consumer, 2)
		must(0, consumer.CommitUncommittedOffsets(ctx))
		consumer.Close()
		must(0, produce(valuesOf(topic, "three")))
		holds(string(readAll(topic, 1, kgo.ConsumerGroup(topic))[0].Value) == "three", "the third message")
	})
}

func adminChecks() {
	check("topics are listed, extended, configured and deleted", func() {
		topic := makeTopic(2, nil)
		must(admin.UpdatePartitions(ctx, 3, topic))
		holds(len(must(admin.ListTopics(ctx, topic))[topic].Partitions) == 3, "three partitions")
		value := "100000"
		must(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic))
		configs := must(must(admin.DescribeTopicConfigs(ctx, topic)).On(topic, nil))
		found := slices.ContainsFunc(configs.Configs, func(one kadm.Config) bool {
			return one.Key == "retention.ms" && one.MaybeValue() == value && one.Source.String() == "DYNAMIC_TOPIC_CONFIG"
		})
		holds(found, "retention.ms is altered")
		must(admin.DeleteTopic(ctx, topic))
		holds(!must(admin.ListTopics(ctx)).Has(topic), "deleted")
	})
	check("offsets are listed and records deleted", func() {
		topic := makeTopic(1, nil)
		must(0, produce(valuesOf(topic, "0", "1", "2")))
		newest := must(admin.ListMaxTimestampOffsets(ctx, topic))[topic][0]
		holds(newest.Offset >= 0 && newest.Timestamp > 0, "%v", newest)
		must(admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, At: 2}}}))
		start := must(admin.ListStartOffsets(ctx, topic))[topic][0]
		end := must(admin.ListEndOffsets(ctx, topic))[topic][0]
		holds(start.Offset == 2 && end.Offset == 3, "%v %v", start, end)
	})
	check("lag is shown and groups deleted", func() {
		topic := makeTopic(1, nil)
		must(0, produce(valuesOf(topic, "0", "1", "2")))
		commit := kadm.Offsets{topic: {0: {Topic: topic, At: 1, LeaderEpoch: -1, Metadata: "noted"}}}
		must(0, admin.CommitAllOffsets(ctx, topic, commit))
		holds(must(admin.Lag(ctx, topic))[topic].Lag.Total() == 2, "a lag of 2")
		holds(must(admin.FetchOffsets(ctx, topic))[topic][0].Metadata == "noted", "metadata")
		must(admin.DeleteGroup(ctx, topic))
		_, err := admin.DeleteGroup(ctx, topic)
		holds(errors.Is(err, kerr.GroupIDNotFound), "expected GROUP_ID_NOT_FOUND, found %v", err)
	})
	check("log dirs and producers are described", func() {
		topic := makeTopic(1, nil)
		must(0, produce(valuesOf(topic, "0", "1")))
		where := kadm.TopicsSet{}
		where.Add(topic, 0)
		size := int64(0)
		must(admin.DescribeAllLogDirs(ctx, where)).Each(func(one kadm.DescribedLogDir) { size += one.Size() })
		holds(size > 0, "the log has a size")
		producers := must(admin.DescribeProducers(ctx, where))[topic].Partitions[0].ActiveProducers
		holds(len(producers) == 1, "one producer, found %d", len(producers))
	})
}

func transactional(id string, timeout time.Duration) *kgo.Client {
	return client(kgo.TransactionalID(id), kgo.TransactionTimeout(timeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func committed(topic string, count int) []string {
	values := []string{}
	for _, record := range readAll(topic, count, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		values = append(values, string(record.Value))
	}
	slices.Sort(values)
	return values
}

func transactionChecks() {
	check("a transaction is read when it is committed, and never when it is aborted", func() {
		topic := makeTopic(2, nil)
		producer := transactional(topic, time.Minute)
		defer producer.Close()
		for number := range 6 {
			must(0, producer.BeginTransaction())
			for partition := range int32(2) {
				value := fmt.Sprintf("%d-%d", number, partition)
				must(0, producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}).FirstErr())
			}
			must(0, producer.EndTransaction(ctx, kgo.TransactionEndTry(number%3 != 1)))
		}
		found := committed(topic, 8)
		holds(slices.Equal(found, []string{"0-0", "0-1", "2-0", "2-1", "3-0", "3-1", "5-0", "5-1"}), "%v", found)
	})
	check("a second instance fences the first", func() {
		topic := makeTopic(1, nil)
		first, second := transactional(topic, time.Minute), transactional(topic, time.Minute)
		defer first.Close()
		defer second.Close()
		for _, one := range []struct {
			producer *kgo.Client
			value    string
		}{{first, "first"}, {second, "second"}} {
			must(0, one.producer.BeginTransaction())
			must(0, one.producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(one.value)}).FirstErr())
		}
		err := first.EndTransaction(ctx, kgo.TryCommit)
		holds(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), "fenced, found %v", err)
		must(0, second.EndTransaction(ctx, kgo.TryCommit))
		found := committed(topic, 1)
		holds(slices.Equal(found, []string{"second"}), "%v", found)
	})
	check("an abandoned transaction is aborted when its time is up", func() {
		topic := makeTopic(1, nil)
		producer := transactional(topic, 1500*time.Millisecond)
		defer producer.Close()
		must(0, producer.BeginTransaction())
		must(0, producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("abandoned")}).FirstErr())
		must(0, produce(valuesOf(topic, "behind")))
		found := committed(topic, 1)
		holds(slices.Equal(found, []string{"behind"}), "%v", found)
		holds(producer.EndTransaction(ctx, kgo.TryCommit) != nil, "it cannot be committed any more")
	})
	check("a copy commits offsets with its records or neither", func() {
		input, output := makeTopic(1, nil), makeTopic(1, nil)
		must(0, produce(valuesOf(input, "0", "1", "2", "3")))
		session := must(kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(output), kgo.ConsumerGroup(input),
			kgo.ConsumeTopics(input), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.RequireStableFetchOffsets()))
		defer session.Close()
		copied := 0
		for attempt := 0; copied < 4; attempt++ {
			fetches := session.PollFetches(ctx)
			must(0, fetches.Err())
			must(0, session.Begin())
			fetches.EachRecord(func(one *kgo.Record) {
				session.Produce(ctx, &kgo.Record{Topic: output, Value: one.Value}, nil)
			})
			isCommit := attempt > 0 // the first attempt is thrown away: its records come again
			ended := must(session.End(ctx, kgo.TransactionEndTry(isCommit)))
			if ended {
				copied += fetches.NumRecords()
			}
		}
		found := committed(output, 4)
		holds(slices.Equal(found, []string{"0", "1", "2", "3"}), "%v", found)
		offset := must(admin.FetchOffsets(ctx, input))[input][0].At
		holds(offset == 4, "committed offset 4, found %d", offset)
	})
}

func main() {
	bootstrap = os.Args[1]
	admin = kadm.NewClient(client())
	recordChecks()
	groupChecks()
	adminChecks()
	transactionChecks()
}
