import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Puts items into one of Curator's queues, or takes some out, and prints one line of JSON about it.
 *
 * <pre>
 * QueuePeer CONNECT PATH simple|distributed|priority offer|multi|take COUNT
 * </pre>
 *
 * The items are the numbers from 0 on, as text; with "priority" the highest number comes first. "multi" puts all into
 * one node. "take" takes so many, or as many as there are.
 */
public final class QueuePeer {
    private static final QueueSerializer<String> TEXT = new QueueSerializer<String>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(args[0], 30_000, 10_000, new ExponentialBackoffRetry(50, 8));
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            System.err.println("no connection to " + args[0]);
            System.exit(1);
        }
        int count = Integer.parseInt(args[4]);
        List<String> items = new ArrayList<>();
        List<Long> latencies = new ArrayList<>();
        long began = System.nanoTime();
        if (args[2].equals("simple")) {
            simple(new SimpleDistributedQueue(client, args[1]), args[3], count, items, latencies);
        } else {
            distributed(client, args[1], args[2].equals("priority"), args[3], count, items);
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        long[] sorted = latencies.stream().mapToLong(Long::longValue).sorted().toArray();
        System.out.println(String.format(Locale.ROOT,
            "{\"seconds\":%.6f,\"operations\":%d,\"p50_micros\":%.1f,\"p99_micros\":%.1f,\"items\":[%s]}",
            seconds, args[3].equals("take") ? items.size() : count, at(sorted, 50), at(sorted, 99),
            items.isEmpty() ? "" : "\"" + String.join("\",\"", items) + "\""));
        client.close();
        System.exit(0);
    }

    private static double at(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(sorted.length - 1) * percent / 100] / 1e3;
    }

    private static void simple(SimpleDistributedQueue queue, String what, int count, List<String> items,
            List<Long> latencies) throws Exception {
        for (int at = 0; at < count; at++) {
            long before = System.nanoTime();
            if (what.equals("offer")) {
                queue.offer(TEXT.serialize(Integer.toString(at)));
            } else {
                byte[] item = queue.poll();
                if (item == null) {
                    return;
                }
                items.add(TEXT.deserialize(item));
            }
            latencies.add(System.nanoTime() - before);
        }
    }

    private static void distributed(CuratorFramework client, String path, boolean hasPriorities, String what, int count,
            List<String> items) throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = what.equals("take") ? new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String item) {
                consumed.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework ignored, ConnectionState state) {
            }
        } : null;
        QueueBuilder<String> builder = QueueBuilder.builder(client, consumer, TEXT, path);
        if (hasPriorities) {
            DistributedPriorityQueue<String> queue = builder.buildPriorityQueue(0);
            queue.start();
            for (int at = 0; consumer == null && at < count; at++) {
                queue.put(Integer.toString(at), -at);
            }
            queue.flushPuts(30, TimeUnit.SECONDS);
            receive(consumed, consumer == null ? 0 : count, items);
            queue.close();
            return;
        }
        DistributedQueue<String> queue = builder.buildQueue();
        queue.start();
        if (what.equals("multi")) {
            List<String> all = new ArrayList<>();
            for (int at = 0; at < count; at++) {
                all.add(Integer.toString(at));
            }
            java.util.Iterator<String> each = all.iterator();
            MultiItem<String> together = () -> each.hasNext() ? each.next() : null;
            queue.putMulti(together);
        }
        for (int at = 0; what.equals("offer") && at < count; at++) {
            queue.put(Integer.toString(at));
        }
        queue.flushPuts(30, TimeUnit.SECONDS);
        receive(consumed, consumer == null ? 0 : count, items);
        queue.close();
    }

    private static void receive(BlockingQueue<String> consumed, int count, List<String> items) throws Exception {
        while (items.size() < count) {
            String item = consumed.poll(30, TimeUnit.SECONDS);
            if (item == null) {
                return;
            }
            items.add(item);
        }
    }
}
