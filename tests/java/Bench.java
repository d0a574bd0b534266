import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures Curator's InterProcessMutex and prints one line of JSON per workload.
 *
 * <pre>
 * Bench CONNECT PATH WARM_UP_MS MEASURE_MS SESSIONS THREADS [WORKLOAD]
 * </pre>
 *
 * "uncontended": one thread acquires and releases; a latency is that of both together.
 * "sessions": SESSIONS clients with one thread each contend, holding the lock for no time; a latency is that of a
 * hand-over, from just before the release until the next acquire returns.
 * "threads": the same with THREADS threads on one client and one mutex.
 *
 * A workload that has come to fewer than LEAST operations by then goes on until it has, as on a machine that is busy
 * with something else; "seconds" says how long it was. "grants" counts all, those of the warm-up, too.
 * Without WORKLOAD all three are run.
 */
public final class Bench {
    private static final int LEAST = 50;

    private final String workload;
    private final int sessions;
    private final int threads;
    private final String path;
    private final long warmUpNanos;
    private final long measureNanos;

    /** When the holder began to release; written and read under the lock that is measured. */
    private volatile long releasedAt;

    /** How many operations were measured, and when the last one ended; written under the lock, too. */
    private volatile int measured;
    private volatile long lastEnded;

    /** How often the lock was acquired in all; written under the lock. */
    private volatile long grants;

    private Bench(String workload, int sessions, int threads, String[] args) {
        this.workload = workload;
        this.sessions = sessions;
        this.threads = threads;
        this.path = args[1] + "/" + workload;
        this.warmUpNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[2]));
        this.measureNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[3]));
    }

    public static void main(String[] args) throws Exception {
        int sessions = Integer.parseInt(args[4]);
        int threads = Integer.parseInt(args[5]);
        Bench[] all = {
            new Bench("uncontended", 1, 1, args),
            new Bench("sessions", sessions, 1, args),
            new Bench("threads", 1, threads, args),
        };
        for (Bench bench : all) {
            if (args.length < 7 || args[6].equals(bench.workload)) {
                bench.run(args[0]);
            }
        }
        System.exit(0);
    }

    private void run(String connect) throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < sessions; i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                connect, 30_000, 10_000, new ExponentialBackoffRetry(50, 8));
            client.start();
            clients.add(client);
        }
        for (CuratorFramework client : clients) {
            if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + connect + " within 20 s");
            }
        }
        ExecutorService executor = Executors.newFixedThreadPool(sessions * threads);
        List<Future<Latencies>> running = new ArrayList<>();
        long from = System.nanoTime() + warmUpNanos;
        for (CuratorFramework client : clients) {
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            for (int i = 0; i < threads; i++) {
                Callable<Latencies> work = () -> work(mutex, from, from + measureNanos);
                running.add(executor.submit(work));
            }
        }
        Latencies all = new Latencies();
        for (Future<Latencies> each : running) {
            all.addAll(each.get());
        }
        executor.shutdown();
        for (CuratorFramework client : clients) {
            client.close();
        }
        all.print(this, Math.max(measureNanos, lastEnded - from));
    }

    private Latencies work(InterProcessMutex mutex, long from, long until) throws Exception {
        boolean alone = sessions * threads == 1;
        Latencies latencies = new Latencies();
        while (true) {
            long begun = System.nanoTime();
            if (!mutex.acquire(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the lock was not acquired within 30 s");
            }
            long acquired = System.nanoTime();
            long handedOver = releasedAt;
            grants++;
            boolean over = acquired - until >= 0 && measured >= LEAST;
            if (!over && !alone && handedOver != 0 && acquired - from >= 0) {
                latencies.add(acquired - handedOver);
                ended(acquired);
            }
            releasedAt = System.nanoTime();
            mutex.release();
            if (over) {
                return latencies;
            }
            long released = System.nanoTime();
            if (alone && released - from >= 0) {
                latencies.add(released - begun);
                ended(released);
            }
        }
    }

    private void ended(long at) {
        measured++;
        lastEnded = at;
    }

    /** Nanoseconds, in the order in which they were measured. */
    private static final class Latencies {
        private long[] nanos = new long[1 << 12];
        private int count;

        void add(long latency) {
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * count);
            }
            nanos[count++] = latency;
        }

        void addAll(Latencies others) {
            for (int i = 0; i < others.count; i++) {
                add(others.nanos[i]);
            }
        }

        void print(Bench bench, long duration) {
            Arrays.sort(nanos, 0, count);
            double seconds = duration / 1e9;
            System.out.println(String.format(Locale.ROOT,
                "{\"workload\":\"%s\",\"sessions\":%d,\"threads\":%d,\"seconds\":%.3f,\"operations\":%d,"
                    + "\"per_second\":%.1f,\"p50_micros\":%.1f,\"p99_micros\":%.1f,\"grants\":%d}",
                bench.workload, bench.sessions, bench.threads, seconds, count,
                count / seconds, percentile(50), percentile(99), bench.grants));
        }

        /** The smallest latency, in microseconds, that so many per cent of all do not exceed. */
        private double percentile(int percent) {
            int rank = (int) Math.ceil(percent / 100.0 * count);
            return nanos[Math.max(rank, 1) - 1] / 1e3;
        }
    }
}
