// The Java client on a secured cluster: Secured TOPIC FILE... produces and consumes one record with each file of properties.
import java.io.FileReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Secured {
    private static final long WAIT_MS = 25_000;

    public static void main(String[] arguments) throws Exception {
        for (String file : List.of(arguments).subList(1, arguments.length)) {
            String name = Path.of(file).getFileName().toString().replace(".properties", "");
            String error = "null";
            try {
                roundTrip(arguments[0], file, "java " + name);
            } catch (Exception problem) {
                error = '"' + String.valueOf(problem).replace('"', '\'').replace("\n", " ") + '"';
            }
            System.out.println("{\"check\": \"" + name + "\", \"error\": " + error + "}");
        }
    }

    private static void roundTrip(String topic, String file, String value) throws Exception {
        Properties settings = new Properties();
        try (FileReader reader = new FileReader(file)) {
            settings.load(reader);
        }
        settings.put("max.block.ms", WAIT_MS);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = List.of(new TopicPartition(topic, 0));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long end = System.currentTimeMillis() + WAIT_MS;
            while (System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.value().equals(value)) {
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("the record did not come back");
    }
}
