// The Java client against the node under test: makes every check and prints one line of JSON for each.

import java.util.*;
import java.util.concurrent.*;

public class Checks {
    static final int AT_ONCE = 4;
    static final long CHECK_MS_MAX = 60_000;

    private static final Map<String, Callable<?>> checks = new LinkedHashMap<>();

    static void check(String name, Callable<?> body) {
        checks.put(name, body);
    }

    public static void main(String[] arguments) throws Exception {
        Support.start(arguments[0]);
        RecordChecks.list();
        GroupChecks.list();
        AdminChecks.list();
        TransactionChecks.list();
        // Most of them wait for heartbeats and fetches, so several run at once.
        var threads = Executors.newFixedThreadPool(AT_ONCE);
        var running = new LinkedHashMap<String, Future<?>>();
        checks.forEach((name, body) -> running.put(name, threads.submit(body)));
        for (var one : running.entrySet()) {
            System.out.printf("{\"check\": \"%s\", \"error\": %s}%n", one.getKey(), errorOf(one.getValue()));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String errorOf(Future<?> check) throws InterruptedException {
        try {
            check.get(CHECK_MS_MAX, TimeUnit.MILLISECONDS);
            return "null";
        } catch (TimeoutException late) {
            return "\"the check took too long\"";
        } catch (ExecutionException failed) {
            var trace = new java.io.StringWriter();
            failed.getCause().printStackTrace(new java.io.PrintWriter(trace));
            return quoted(trace.toString());
        }
    }

    private static String quoted(String text) {
        var escaped = text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\t", "\\t");
        return "\"" + escaped.replace("\r", "") + "\"";
    }
}
