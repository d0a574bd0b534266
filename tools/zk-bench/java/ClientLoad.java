import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Loads a server with ZooKeeper's own client, and measures what that costs the client.
 *
 * <pre>
 * ClientLoad SERVER
 * </pre>
 *
 * Each line of the standard input is a run, and the answer is a line of JSON, or a failure; see client-load, which does
 * the same with clients in Rust. A thread for each session makes blocking calls; where a session has several requests in
 * flight, each callback sends the next one.
 */
public final class ClientLoad {
    private static final String PARENT = "/wire";
    private static final int SESSION_TIMEOUT = 30_000;

    private final String operation;
    private final int inFlight;
    private final String valuePath;
    private final byte[] value;

    private ClientLoad(String[] words) {
        operation = words[2];
        inFlight = Integer.parseInt(words[3]);
        int bytes = Integer.parseInt(words[4]);
        valuePath = PARENT + "/value-" + bytes;
        value = new byte[bytes];
        Arrays.fill(value, (byte) 'x');
    }

    public static void main(String[] args) throws Exception {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                run(args[0], line.split(" "));
            }
        } catch (Exception e) {
            System.out.println("failed: " + e);
            System.exit(1);
        }
        System.exit(0);
    }

    private static void run(String server, String[] words) throws Exception {
        ClientLoad load = new ClientLoad(words);
        long warmUp = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[0]));
        long measured = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[1]));
        List<ZooKeeper> sessions = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(words[5]); i++) {
            sessions.add(open(server));
        }
        ExecutorService threads = Executors.newFixedThreadPool(sessions.size());
        load.phase(sessions, threads, warmUp);
        new File("/client-load-begins").exists();
        Duration cpu = cpuTime();
        long begun = System.nanoTime();
        long[] latencies = load.phase(sessions, threads, measured);
        double seconds = (System.nanoTime() - begun) / 1e9;
        double cpuSeconds = cpuTime().minus(cpu).toNanos() / 1e9;
        new File("/client-load-has-ended").exists();
        threads.shutdown();
        for (ZooKeeper session : sessions) {
            session.close();
        }
        Arrays.sort(latencies);
        System.out.println(String.format(Locale.ROOT,
            "{\"operations\":%d,\"seconds\":%.6f,\"p50_micros\":%.3f,\"p99_micros\":%.3f,\"cpu_seconds\":%.6f,"
                + "\"allocations\":null}",
            latencies.length, seconds, percentile(latencies, 50), percentile(latencies, 99), cpuSeconds));
    }

    private static ZooKeeper open(String server) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper session = new ZooKeeper(server, SESSION_TIMEOUT, event -> connected.countDown());
        if (!connected.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + server + " within 20 s");
        }
        return session;
    }

    /** Repeats the operation in all sessions for some time, at least once each; returns the latencies in nanoseconds. */
    private long[] phase(List<ZooKeeper> sessions, ExecutorService threads, long time) throws Exception {
        List<Future<Latencies>> running = new ArrayList<>();
        long end = System.nanoTime() + time;
        for (int i = 0; i < sessions.size(); i++) {
            ZooKeeper session = sessions.get(i);
            String created = PARENT + "/created-" + i;
            running.add(threads.submit(() ->
                inFlight == 1 ? repeat(session, created, end) : new Window(session, end).run()));
        }
        Latencies all = new Latencies();
        for (Future<Latencies> each : running) {
            all.addAll(each.get());
        }
        return Arrays.copyOf(all.nanos, all.count);
    }

    private Latencies repeat(ZooKeeper session, String created, long end) throws Exception {
        Latencies latencies = new Latencies();
        long begun = System.nanoTime();
        do {
            perform(session, created);
            long now = System.nanoTime();
            latencies.add(now - begun);
            begun = now;
        } while (begun < end);
        return latencies;
    }

    private void perform(ZooKeeper session, String created) throws Exception {
        switch (operation) {
            case "get":
                session.getData(valuePath, false, null);
                break;
            case "set":
                session.setData(valuePath, value, -1);
                break;
            case "create-delete":
                session.create(created, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
                session.delete(created, -1);
                break;
            case "create-list-delete":
                createAndList(session, created);
                session.delete(created, -1);
                break;
            default:
                throw new IllegalArgumentException("unknown operation " + operation);
        }
    }

    private static void createAndList(ZooKeeper session, String created) throws Exception {
        AtomicReference<KeeperException> failed = new AtomicReference<>();
        CountDownLatch listed = new CountDownLatch(1);
        session.create(created, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL,
            (code, path, context, name) -> check(code, path, failed), null);
        session.getChildren(PARENT, false, (code, path, context, children) -> {
            check(code, path, failed);
            listed.countDown();
        }, null);
        listed.await();
        if (failed.get() != null) {
            throw failed.get();
        }
    }

    private static void check(int code, String path, AtomicReference<KeeperException> failed) {
        if (code != 0) {
            failed.set(KeeperException.create(KeeperException.Code.get(code), path));
        }
    }

    /** Several requests in flight in one session; all callbacks are on the session's own thread. */
    private final class Window {
        private final ZooKeeper session;
        private final long end;
        private final Latencies latencies = new Latencies();
        private final AtomicReference<KeeperException> failed = new AtomicReference<>();
        private final CountDownLatch done = new CountDownLatch(inFlight);

        Window(ZooKeeper session, long end) {
            this.session = session;
            this.end = end;
        }

        Latencies run() throws KeeperException, InterruptedException {
            for (int i = 0; i < inFlight; i++) {
                send();
            }
            done.await();
            if (failed.get() != null) {
                throw failed.get();
            }
            return latencies;
        }

        private void send() {
            long begun = System.nanoTime();
            if (operation.equals("get")) {
                session.getData(valuePath, false, (code, path, context, data, stat) -> answered(code, path, begun), null);
            } else {
                session.setData(valuePath, value, -1, (code, path, context, stat) -> answered(code, path, begun), null);
            }
        }

        private void answered(int code, String path, long begun) {
            long now = System.nanoTime();
            check(code, path, failed);
            latencies.add(now - begun);
            if (now < end && code == 0) {
                send();
            } else {
                done.countDown();
            }
        }
    }

    /** In user and kernel mode, in steps of 10 ms. */
    private static Duration cpuTime() {
        return ProcessHandle.current().info().totalCpuDuration().orElseThrow();
    }

    /** The smallest latency, in microseconds, that so many per cent of all do not exceed. */
    private static double percentile(long[] sorted, int percent) {
        int rank = (int) Math.ceil(percent / 100.0 * sorted.length);
        return sorted[Math.max(rank, 1) - 1] / 1e3;
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
    }
}
