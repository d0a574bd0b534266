import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Enters and leaves DistributedDoubleBarriers with several clients, and prints how many seconds it took.
 *
 * <pre>
 * BarrierBench CONNECT PATH CLIENTS BARRIERS
 * </pre>
 *
 * Each barrier has a path of its own: a client that enters the next one on the same path at once may be waited for by
 * those that still leave the last one.
 */
public final class BarrierBench {
    private BarrierBench() {
    }

    public static void main(String[] args) throws Exception {
        int members = Integer.parseInt(args[2]);
        int barriers = Integer.parseInt(args[3]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int at = 0; at < members; at++) {
            clients.add(connect(args[0]));
        }
        ExecutorService executor = Executors.newFixedThreadPool(members);
        long began = System.nanoTime();
        List<Future<?>> running = new ArrayList<>();
        for (CuratorFramework client : clients) {
            running.add(executor.submit(() -> {
                for (int at = 0; at < barriers; at++) {
                    DistributedDoubleBarrier barrier =
                        new DistributedDoubleBarrier(client, args[1] + "/" + at, members);
                    barrier.enter();
                    barrier.leave();
                }
                return null;
            }));
        }
        for (Future<?> each : running) {
            each.get();
        }
        System.out.println((System.nanoTime() - began) / 1e9);
        System.exit(0);
    }

    /** A client without the command line of Peer, whose process ends with its standard input. */
    private static CuratorFramework connect(String servers) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(30_000)
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }
}
