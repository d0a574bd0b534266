import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures Curator's CuratorCache on nodes that are there already, and prints one line of JSON.
 *
 * <pre>
 * CacheBench CONNECT PATH NODES DIRECTORIES WARM_UPS SETS BURST READS IN_FLIGHT
 * </pre>
 *
 * Node i is PATH/d(i % DIRECTORIES)/n(i). The cache is loaded WARM_UPS times before the load that counts, from just before
 * its start until it says that it is initialized. Then one node at a time is set by another client, SETS times: a latency
 * is that from just before the set until the listener is told. Then BURST nodes are set once each, IN_FLIGHT at a time:
 * the rate is that of the events. At last READS values are read out of the cache.
 */
public final class CacheBench {
    private CacheBench() {}

    public static void main(String[] args) throws Exception {
        String path = args[1];
        int nodes = Integer.parseInt(args[2]);
        int directories = Integer.parseInt(args[3]);
        int warmUps = Integer.parseInt(args[4]);
        int sets = Integer.parseInt(args[5]);
        int burst = Integer.parseInt(args[6]);
        int reads = Integer.parseInt(args[7]);
        int inFlight = Integer.parseInt(args[8]);
        String[] paths = new String[nodes];
        for (int i = 0; i < nodes; i++) {
            paths[i] = path + "/d" + i % directories + "/n" + i;
        }
        CuratorFramework client = connect(args[0]);
        CuratorFramework writer = connect(args[0]);

        CuratorCache cache = null;
        long loaded = 0;
        LinkedBlockingQueue<Long> told = new LinkedBlockingQueue<>();
        AtomicInteger changes = new AtomicInteger();
        for (int round = 0; round <= warmUps; round++) {
            if (cache != null) {
                cache.close();
            }
            cache = CuratorCache.build(client, path);
            CountDownLatch initialized = new CountDownLatch(1);
            cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(initialized::countDown)
                .forChanges((before, after) -> {
                    changes.incrementAndGet();
                    told.add(System.nanoTime());
                })
                .build());
            long begun = System.nanoTime();
            cache.start();
            if (!initialized.await(120, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the cache was not initialized within 120 s");
            }
            loaded = System.nanoTime() - begun;
            if (cache.size() < nodes) {
                throw new IllegalStateException("the cache has " + cache.size() + " nodes");
            }
        }

        byte[] data = new byte[100];
        long[] latencies = new long[sets];
        for (int i = 0; i < sets; i++) {
            data[0]++;
            long begun = System.nanoTime();
            writer.setData().forPath(paths[i % nodes], data);
            Long at = told.poll(30, TimeUnit.SECONDS);
            if (at == null) {
                throw new IllegalStateException("a change was not told within 30 s");
            }
            latencies[i] = at - begun;
        }
        Arrays.sort(latencies);

        changes.set(0);
        told.clear();
        Semaphore free = new Semaphore(inFlight);
        long begun = System.nanoTime();
        for (int i = 0; i < burst; i++) {
            free.acquire();
            writer.setData().inBackground((ignored, event) -> free.release()).forPath(paths[i], data);
        }
        long last = 0;
        for (int i = 0; i < burst; i++) {
            Long at = told.poll(60, TimeUnit.SECONDS);
            if (at == null) {
                throw new IllegalStateException("of " + burst + " changes " + i + " were told within 60 s");
            }
            last = at;
        }
        double perSecond = burst / ((last - begun) / 1e9);

        long bytes = 0;
        long started = 0;
        for (int i = -reads; i < reads; i++) {
            if (i == 0) {
                started = System.nanoTime();
            }
            bytes += cache.get(paths[(i & 0x7fffffff) % nodes]).get().getData().length;
        }
        double readNanos = (System.nanoTime() - started) / (double) reads;
        if (bytes == 0) {
            throw new IllegalStateException("nothing was read");
        }
        System.out.println(String.format(
            Locale.ROOT,
            "{\"load_millis\":%.3f,\"p50_micros\":%.3f,\"p99_micros\":%.3f,\"events_per_second\":%.1f,\"read_nanos\":%.1f}",
            loaded / 1e6, latencies[sets / 2] / 1e3, latencies[sets * 99 / 100] / 1e3, perSecond, readNanos));
        System.exit(0);
    }

    private static CuratorFramework connect(String connect) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(connect, 30_000, 10_000, new ExponentialBackoffRetry(50, 8));
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + connect + " within 20 s");
        }
        return client;
    }
}
