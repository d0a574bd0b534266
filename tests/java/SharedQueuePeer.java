import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Uses one of Curator's queues that has a lock path, on command. Each command and each reply is a line.
 *
 * <pre>
 * SharedQueuePeer CONNECT SESSION_MILLIS PATH LOCK_PATH plain|id put|take
 * </pre>
 *
 * With "put": "put ITEM [ID]", "remove ID", "write PATH", after which its server shows what was done before. With "take", it says "took ITEM" for each item, and processes it until it has
 * a permit; "finish COUNT" gives so many.
 */
public final class SharedQueuePeer {
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

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[1]), 10_000,
            new ExponentialBackoffRetry(50, 8));
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[0]);
            System.exit(1);
        }
        Semaphore permits = new Semaphore(0);
        QueueConsumer<String> consumer = args[5].equals("put") ? null : new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String item) throws Exception {
                say("took " + item);
                permits.acquire();
            }

            @Override
            public void stateChanged(CuratorFramework ignored, ConnectionState state) {
            }
        };
        QueueBuilder<String> builder =
            QueueBuilder.builder(client, consumer, TEXT, args[2]).lockPath(args[3]).putInBackground(false);
        DistributedQueue<String> plain = args[4].equals("plain") ? builder.buildQueue() : null;
        DistributedIdQueue<String> withIds = plain == null ? builder.buildIdQueue() : null;
        say("ready");
        if (plain != null) {
            plain.start();
        } else {
            withIds.start();
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("put") && plain != null) {
                    plain.put(words[1]);
                    say("put");
                } else if (words[0].equals("put")) {
                    withIds.put(words[1], words[2]);
                    say("put");
                } else if (words[0].equals("remove")) {
                    say("removed " + withIds.remove(words[1]));
                } else if (words[0].equals("write")) {
                    client.create().orSetData().forPath(words[1]);
                    say("written");
                } else if (words[0].equals("finish")) {
                    permits.release(Integer.parseInt(words[1]));
                } else {
                    say("failed unknown command " + line);
                }
            } catch (Exception e) {
                say("failed " + e);
            }
        }
        System.exit(0);
    }
}
