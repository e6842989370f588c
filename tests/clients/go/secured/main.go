// franz-go on a secured cluster: secured CASES.json TOPIC produces and consumes one record in each way of being let in.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type secured struct {
	Name, Bootstrap, CA, Store, Mechanism, User, Password string
}

func settings(one secured) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(one.Bootstrap)}
	if one.CA != "" {
		pem, err := os.ReadFile(one.CA)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if one.Store != "" {
			own, err := tls.LoadX509KeyPair(one.Store, one.Store)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch one.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: one.User, Pass: one.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: one.User, Pass: one.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: one.User, Pass: one.Password}.AsSha512Mechanism()))
	}
	return options, nil
}

func roundTrip(one secured, topic string) error {
	options, err := settings(one)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(options, kgo.ConsumeTopics(topic))...)
	if err != nil {
		return err
	}
	defer client.Close()
	value := "franz-go " + one.Name
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, record := range fetches.Records() {
			if string(record.Value) == value {
				return nil
			}
		}
	}
	return errors.New("the record did not come back")
}

func main() {
	var cases []secured
	content, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(content, &cases)
	}
	if err != nil {
		panic(err)
	}
	for _, one := range cases {
		var failure any
		if err := roundTrip(one, os.Args[2]); err != nil {
			failure = err.Error()
		}
		line, _ := json.Marshal(struct {
			Check string `json:"check"`
			Error any    `json:"error"`
		}{one.Name, failure})
		fmt.Println(string(line))
	}
}
